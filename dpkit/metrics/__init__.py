"""Is the output any good? Utility: train on synthetic, test on real."""
