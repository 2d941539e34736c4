"""How a private model is trained: clipped sums, noise, batches, the loop. Needs torch."""
