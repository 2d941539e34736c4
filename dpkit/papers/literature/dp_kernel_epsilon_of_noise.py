"""DP-Kernel's noise for epsilon 1, priced for its own mechanism."""

from dpkit.papers.claims import Source, finding, of_poisson_batches

NOISE, RECORDS, BATCH, EPOCHS = 1.95, 60_000, 60, 200
RUN = (NOISE, BATCH / RECORDS, EPOCHS * RECORDS // BATCH)  # its rate and steps
CLAIM = finding(
    "dp-kernel-epsilon-of-noise",
    Source(
        "DP-Kernel (Functional Renyi Differential Privacy for Generative Modeling, 2023)",
        "dihjiang/DP-kernel 59c02b7, README.md:12-14, pyvacy/sampling/batch_samplers.py",
    ),
    says="200,000 Gaussian releases of noise multiplier 1.95, each on a thousandth of the "
    "records (200 epochs in batches of 60 of 60,000), are (1, 1e-5)-DP.",
    at_most=1.0,
    compute=lambda: of_poisson_batches(*RUN, gap=0.01),
    explanation="They cost .911 as Poisson samples, which its sampler draws, under add-remove. "
    "That is the price of a release which bears its noise; whether the generator's step is one is "
    "the claim dp-kernel-noise-on-loss.",
)
