"""The names that dpkit.training gives: the same object whichever way, and in whichever order."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from dpkit import training

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

CHECKOUT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.py"))

# dpkit is forgotten before each, as in a fresh interpreter; torch stays: loading it takes seconds.
IN_BOTH_ORDERS = """
import json, sys
from importlib import import_module
import dpkit.training
from dpkit.training import Adam, Sgd, update
early = "torch" in sys.modules
from dpkit.training import train
late = "torch" in sys.modules
def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "dpkit"]:
        del sys.modules[name]
def attribute(name):
    return getattr(import_module("dpkit.training"), name)
def imported(name):
    given = {}
    exec(f"from dpkit.training import {name}", given)
    return given[name]
def at_home(name, home):
    return getattr(import_module(f"dpkit.training.{home}"), name)
unlike = []
for name, home in HOMES.items():
    for first in (attribute, imported, lambda name: at_home(name, home)):
        forget()
        found = [first(name), at_home(name, home), attribute(name), imported(name)]
        if any(one is not found[0] for one in found):
            unlike.append(f"{name}, {first.__name__} first")
print(json.dumps([early, late, unlike]))
"""


def imports(tree: ast.AST) -> dict[str, str]:
    """Each name that is imported from dpkit.training, and the module it is imported from."""
    return {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpkit.training")
        for alias in node.names
    }


def test_names_are_the_same_objects_in_both_orders_and_torch_is_loaded_where_it_is_needed():
    """Of one name of every third module, in a fresh interpreter."""
    typed = imports(ast.parse(Path(training.__file__).read_text(encoding="utf-8")))
    one_of_each = {home.removeprefix("dpkit.training."): name for name, home in typed.items()}
    homes = {name: home for home, name in list(one_of_each.items())[::3]}
    code = f"HOMES = {homes!r}\n{IN_BOTH_ORDERS}"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    early, late, unlike = json.loads(result.stdout)
    assert unlike == []
    assert (early, late) == (False, True)  # whether torch is loaded


def test_no_name_changes_when_every_module_is_loaded():
    """A module that is imported becomes an attribute, and would hide a function of its name."""
    for module in iter_modules(training.__path__, "dpkit.training."):
        import_module(module.name)
    typed = imports(ast.parse(Path(training.__file__).read_text(encoding="utf-8")))
    assert training.__all__ == dir(training) == sorted(typed)
    for name in training.__all__:
        at_home = getattr(import_module(typed[name]), name)
        assert getattr(training, name) is at_home, f"{name} is hidden by a module"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_every_name_that_a_notebook_uses_is_given_by_both_paths(path: Path):
    for name, module in imports(ast.parse(path.read_text(encoding="utf-8"))).items():
        assert name in training.__all__, f"{module} has {name}, dpkit.training has not"
        if module != "dpkit.training":
            assert getattr(import_module(module), name) is getattr(training, name)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"has no 'trian'; it has .* train,"):
        _ = training.trian
    with pytest.raises(ImportError, match="cannot import name 'trian'"):
        exec("from dpkit.training import trian")
