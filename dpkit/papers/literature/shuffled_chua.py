"""One shuffled epoch, charged as if its batches were Poisson."""

from dpkit.papers.claims import Code, Source, finding
from dpkit.privacy import shuffled

NOISE, BATCHES, DELTA = 0.5, 10_000, 1e-6
POISSON = 1.9535  # PLD, certified from above: 10,000 Poisson batches at rate 1/10,000


def epsilon() -> float:
    """A lower bound on one shuffled epoch's epsilon, under zero-out adjacency."""
    return shuffled.at_least(NOISE, batches=BATCHES, delta=DELTA)


CLAIM = finding(
    "shuffled-chua",
    Source(
        "A common practice, questioned by Chua et al. (2024, How private are DP-SGD "
        "implementations?)",
        "arXiv 2403.17673, abstract; google-research/google-research 4c42994, "
        "dpsgd_batch_sampler_accounting/dpsgd_bounds.py, ShuffleAccountant",
    ),
    says="Poisson's epsilon covers one shuffled epoch (noise 0.5, 10,000 batches, delta 1e-6).",
    at_most=POISSON,
    compute=epsilon,
    explanation="If all other gradients are the opposite of the record's, the sum of its batch "
    "stands out from 10,000 by 2 C with it and by C without it: the event that the largest of all "
    "sums is high shows an epsilon of 10.99 at least, where Poisson batches cost 1.95. A record "
    "that leaves is replaced by a zero (zero-out adjacency).",
    code=Code(
        was="batches = split(shuffled(data), n)\ncharge(SampledGaussian(z, 1 / n), times=n)",
        should="batches = [draw(data, rate=1 / n) for _ in range(n)]\n"
        "charge(SampledGaussian(z, 1 / n), times=n)",
        cause="sampling",
    ),
)
