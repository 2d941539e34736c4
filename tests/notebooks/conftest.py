"""Notebooks that the tests of the machinery run: a small one, and a real one."""

import shutil
from pathlib import Path

import pairs
import pytest

TINY = """# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Halves
# > **Time** a second. **Memory** 60 MB.

# %%
half = 1 / 2
print(f"half = {half:.3f}")

# %% tags=["raises-exception"]
1 / 0

# %%
half
"""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> pairs.Pair:
    """A small executed pair, made once; tests that change it copy it first."""
    import execute

    source = tmp_path_factory.mktemp("notebooks") / "source" / "00_tiny.py"
    source.parent.mkdir()
    source.write_text(TINY)
    execute.execute(source)
    return pairs.pair_of(source)


@pytest.fixture
def copied(tmp_path: Path) -> pairs.Pair:
    """A copy, to be spoilt, of the first real pair."""
    first = pairs.pairs()[0]
    (tmp_path / "source").mkdir()
    source = Path(shutil.copy(first.source, tmp_path / "source"))
    return pairs.Pair(source, Path(shutil.copy(first.stored, tmp_path)))
