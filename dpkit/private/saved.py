"""The released weights with their statement, as a safetensors file to be published."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from dpkit.common import __version__, files
from dpkit.privacy.ledger import rows
from dpkit.private.plan import Plan


def save(path: str | Path, network: nn.Module, *, plan: Plan, words: dict[str, Any]) -> None:
    """Write a released network, whole or not at all.

    Args:
        path: of the file; its folder must exist.
        network: released: everything in its state_dict is published.
        plan: what was released, and its price.
        words: more to publish, of JSON.

    Raises:
        ValueError: the folder does not exist, or the path is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder: give the path of a file, such as net.safetensors"
        )
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} does not exist: make it first")
    guarantee = plan.guarantee()
    facts = {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "method": guarantee.method,
        "assumptions": list(guarantee.assumptions),
        "ledger": rows(plan.ledger()),
        "plan": asdict(plan),
        "dpkit": __version__,
        **words,
    }
    # clones: safetensors refuses tied weights, which share memory
    tensors = {name: t.detach().cpu().clone() for name, t in network.state_dict().items()}
    texts = {"statement": str(words["statement"]), "dpkit": json.dumps(facts)}
    files.write_bytes(path, to_bytes(tensors, texts), private=True)


def load(path: str | Path, network: nn.Module) -> dict[str, Any]:
    """Read released weights into a network of the same architecture; return the published facts.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no such file, or of a network of other tensors.
    """
    facts, tensors = content(path)
    own, stored = (
        {(name, tuple(tensor.shape)) for name, tensor in one.items()}
        for one in (network.state_dict(), tensors)
    )
    if own != stored:
        raise ValueError(
            f"{path} is of a network of another architecture: it alone has "
            f"{sorted(stored - own)[:3]}, and the network given {sorted(own - stored)[:3]}"
        )
    network.load_state_dict(tensors)
    return facts


def content(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts published with the weights, and the weights.

    Raises: as `load`.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safe_open(str(path), framework="pt") as file:
            facts = json.loads((file.metadata() or {})["dpkit"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no file that dpkit saved ({error})") from error
    return facts, tensors
