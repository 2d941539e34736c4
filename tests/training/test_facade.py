"""The names that dpkit.training gives: the same object whichever way."""

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from dpkit import training

pytest.importorskip("torch")


def imports(tree: ast.AST) -> dict[str, str]:
    """Each name that is imported from dpkit.training, and the module it is imported from."""
    return {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpkit.training")
        for alias in node.names
    }


def test_no_name_changes_when_every_module_is_loaded():
    """A module that is imported becomes an attribute, and would hide a function of its name."""
    for module in iter_modules(training.__path__, "dpkit.training."):
        import_module(module.name)
    typed = imports(ast.parse(Path(training.__file__).read_text(encoding="utf-8")))
    assert training.__all__ == dir(training) == sorted(typed)
    for name in training.__all__:
        at_home = getattr(import_module(typed[name]), name)
        assert getattr(training, name) is at_home, f"{name} is hidden by a module"


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"has no 'trian'; it has .* train,"):
        _ = training.trian
    with pytest.raises(ImportError, match="cannot import name 'trian'"):
        exec("from dpkit.training import trian")
