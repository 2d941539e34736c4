"""Honest programs run, give the facts that they must, and are warned of nothing undeclared."""

import warnings
from contextlib import nullcontext

import pytest
from honest_programs import PROGRAMS

from dpkit.training import seeded

pytestmark = pytest.mark.torch

SAID_OF_ANY = ("(?s).*goes through torch.func", "`torch.jit.script` is deprecated")


@pytest.mark.parametrize(
    ("run", "facts", "warns"), [pytest.param(*one, id=one[0].__name__) for one in PROGRAMS]
)
def test_an_honest_program_runs(run, facts, warns, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with seeded(0), warnings.catch_warnings():
        warnings.simplefilter("error")
        for words in SAID_OF_ANY:
            warnings.filterwarnings("ignore", words)
        # other words than the declared ones are warned of again at its end, and are an error then
        with pytest.warns(UserWarning, match=warns) if warns else nullcontext():
            found = run(0)
    assert found == facts
