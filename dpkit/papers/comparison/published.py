"""Published accuracies of private generators on MNIST and Fashion-MNIST, with source and protocol.

Quoted, not measured here. Protocols differ: a row may be held against another of the same protocol
only. Methods whose public code has no finite epsilon are left out.
"""

from typing import NamedTuple


class Protocol(NamedTuple):
    """How a group of published figures was measured.

    source: where they are printed.
    says: classifier, choice of its epoch, records, delta.
    """

    source: str
    says: str


class Published(NamedTuple):
    """Accuracies in per cent, by data set and epsilon.

    method: as it is called there.
    kind: of generator, in a word or two.
    protocol: a key of PROTOCOLS.
    accuracies: data set -> epsilon -> per cent.
    """

    method: str
    kind: str
    protocol: str
    accuracies: dict[str, dict[float, float]]


PROTOCOLS = {
    "DPImageBench": Protocol(
        "Gong et al. 2025, DPImageBench, README section 7 (2019ChenGong/DPImageBench 565f8d7)",
        "mean of a ResNet, a WideResNet and a ResNeXt trained on 55,000 generated images, best "
        "epoch by 5,000 private images; 55,000 records, delta 1.67e-6",
    ),
    "Bie et al.": Protocol(
        "Bie, Kamath, Zhang 2023, abstract", "a small CNN, the one used here; delta 1e-5"
    ),
}


def _bench(method: str, kind: str, mnist: tuple[float, float], fashion: tuple[float, float]):
    both = {"mnist": mnist, "fashion_mnist": fashion}
    found = {data: dict(zip((1.0, 10.0), pair, strict=True)) for data, pair in both.items()}
    return Published(method, kind, "DPImageBench", found)


PUBLISHED = (
    _bench("DP-MERF", "one release", (80.3, 81.3), (62.2, 62.2)),
    _bench("DP-NTK", "one release", (50.0, 91.3), (64.4, 76.3)),
    _bench("DP-GAN", "GAN", (92.4, 92.7), (71.8, 70.3)),
    Published("Bie et al.", "GAN", "Bie et al.", {"mnist": {10.0: 95.0}}),
    _bench("DPDM", "diffusion", (89.2, 97.7), (76.4, 85.6)),
    _bench("DP-FETA", "diffusion", (95.6, 98.1), (81.7, 87.3)),
)
