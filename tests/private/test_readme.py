"""README's section "Your own" runs as it is written, on networks and digits that are handed in."""

import re
from pathlib import Path

import pytest
import torch
from small_networks import Critic, Generator, classifier, digits
from torch import nn

pytestmark = pytest.mark.torch

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SECTION = README.split("## Your own\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(r"\g<0>", marks=pytest.mark.slow("a section that fails late in a run")),
        "steps=8",
    ],
    ids=["as written", "of few steps"],
)
def test_the_section_runs(steps, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (written,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    code, fits = re.subn(r"steps=\d+", steps, written)
    assert fits == 2
    x, y = digits()
    net = nn.Sequential(nn.Flatten(), classifier())
    given = {
        "net": net,
        "optimizer": torch.optim.Adam(net.parameters(), 5e-3),
        "x": x,
        "y": y,
        "generator": Generator(64),
        "critic": Critic(),
    }
    exec(code, given)
    said = capsys.readouterr().out
    assert "(8, 1e-05)-differential privacy under add-remove" in said
    assert given["private"].guarantee().epsilon <= 8
    assert (tmp_path / "generator.safetensors").stat().st_size > 1000
    assert given["table"].shape == (1000, 3)


def test_the_section_has_thirty_lines_with_its_heading():
    assert len(("## Your own\n" + SECTION.rstrip()).splitlines()) <= 30
