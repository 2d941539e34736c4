"""Thirty claims as cases to judge: what is run, without saying whether that is what is charged."""

CASES = {  # id of a claim -> what is run
    "ledger/pate-gan-raw-batches": "In each round a critic takes five steps on 128 records of all "
    "the data. The labels it learns, real or fake, get noise, which is charged. The generator "
    "learns from the critic.",
    "ledger/bie-epsilon-1": "Poisson batches; gradients clipped one by one; noise of 5 clip norms "
    "on their sum, each step charged. (Take the seed as secret.)",
    "ledger/dpdm-epsilon-0-2": "The noise is searched for the target in the file, by a certified "
    "accountant. The file train_eps_0.2.yaml says `dp: {epsilon: 10.0}`.",
    "small_images/shuffled-against-poisson": "Each epoch shuffles the records and deals them out "
    "in batches. Batches are charged at the rate batch / records, by the sampled Gaussian.",
    "ledger/jax-prng-reuse": "A gradient has a block for each tensor. Once a step a key is made, "
    "and noise = [normal(key, b) for b in shapes].",
    "rdp_gan/loss-values-at-sigma-10": "All that is released are 5,000 noisy values: mean losses "
    "of Poisson batches of 64 of 20,000 records, each loss at most 20.",
    "ledger/dpmm-mst-mu": "The budget is turned into zero-concentrated DP by a proven conversion, "
    "and that into the mu of one Gaussian.",
    "rdp_gan/theorem-4-delta": "1,000 releases, each with the guarantee (epsilon, 1e-5), are "
    "composed by adding up their epsilons.",
    "ledger/diffprivlib-regression-bound": "A feature's bounds are `lower` and `upper`; the sum of "
    "squares has sensitivity = max(abs(lower), abs(lower)) ** 2.",
    "adadp/lemma-1": "Coordinate i has the sensitivity s_i and noise of deviation sigma_i, which "
    "were both fixed beforehand.",
    "ledger/gs-wgan-left-over-index": "1,000 critics, each warmed up on 55 records of its own, are "
    "loaded from disk: one loop counts with i and reads the index that the loop before it used.",
    "ledger/backpropagation-clipping-512": "A layer's gradient is a product of two factors, "
    "clipped to the input norm and the gradient norm after the mean over the batch is taken.",
    "dpgan/theorem-4.1-7-groups": "A gradient's tensors form 7 groups. Each is clipped at C and "
    "noised by itself, and the cost of one is charged.",
    "ledger/pate-gan-same-partition": "The data is split in a loop over i into 10 parts. Then "
    "`for _ in teachers` trains each teacher on parts[i].",
    "ledger/dpmm-mst-rho": "A third of the budget, rho .0306, pays for single columns, a third for "
    "the choice of pairs and a third for the pairs' tables.",
    "small_images/beaulieu-jones-replace-one": "Each step draws one record of 6,000, clips its "
    "gradient and adds noise 1. The charge is that of Poisson batches of one on average.",
    "ledger/dp-accounting-replace-one": "Noise / clip norm is 1. Neighbours differ in one record "
    "that is replaced; the Renyi accountant prices a shift by one clip norm.",
    "adadp/theorem-1-example-poisson": "Every record enters a lot by a coin of its own, at rate "
    "600/60,000; each of 1,800 steps is charged by the sampled Gaussian's moments, noise 0.9.",
    "ledger/gs-wgan-once-a-step": "A step draws one critic of 1,000, passes 32 images through it "
    "and releases 32 gradients, each with noise .483 of its own. One sampled release is charged.",
    "adadp/raw-history-leak": "From the second step on, a coordinate's clipping bound and noise "
    "follow a running mean of earlier gradients, as they were before clipping.",
    "ledger/opacus-batch-size-from-n": "The data has 1,000 records. A million weights' noisy sum "
    "is divided by 1,000, and released.",
    "rdp_gan/multiplicative-direction": "The loss is multiplied by a random normal number before "
    "its gradient is taken. The gradient's direction is private.",
    "ledger/smartnoise-mean-sensitivity": "The mean of all records is released with noise for "
    "(U - L) / n. Neighbours differ in a record that is added or dropped.",
    "dp_cgan/generator-labels": "The generator's step sees no image. It uses the discriminator, "
    "which was trained with noise, and the labels of the private batch.",
    "dpgan/stray-factor-4-devices": "Four devices sum 64 clipped gradients each; the four sums are "
    "averaged, and get noise of deviation 1.0859 C / sqrt(256).",
    "dpgan/one-release-lsun": "The noise is sqrt(2 ln(1.25 / delta)) / epsilon times the "
    "sensitivity, at epsilon 10 and delta 1e-4.",
    "dp_cgan/class-counts-released": "After training, as many images of each class are drawn as "
    "the training data has.",
    "ledger/diffprivlib-wishart": "To the sum of x x^T, norms at most 1, a random matrix is added "
    "that is positive semidefinite.",
    "adadp/lemma-1-example": "Two coordinates of sensitivities 12 and 6 get Gaussian noise of 17 "
    "and 8.5, or of 13.5 each; either is charged as noise 1 for sensitivity 1.",
    "adadp/local-clipping-sensitivity": "A coordinate of each gradient is clipped to [-s, s] and "
    "summed. Neighbours differ in a record that is replaced by another.",
}
