"""Accountants, settings and claims work, and answer quickly, where torch cannot be imported."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pkgutil import iter_modules

import pytest
from test_source import CHECKOUT, FILES, module_name, needs_torch

PACKAGE = CHECKOUT / "dpkit"
BLOCK = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision", "opacus"):
            raise ModuleNotFoundError(f"{name} is blocked here", name=name)
sys.meta_path.insert(0, Blocker())
"""


def python(code: str) -> str:
    """The standard output of an interpreter in which nothing can import torch."""
    command = [sys.executable, "-c", BLOCK + code]
    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def torch_free_modules() -> list[str]:
    """Every module that may not import torch; matplotlib and ipywidgets may be missing too."""
    files = [path for path in FILES if not needs_torch(path) and path.name != "__main__.py"]
    needed = {"matplotlib": {"plots.py", "diagrams.py"}}
    needed["ipywidgets"] = {"explorers", "quiz.py", "cases.py"}
    for library, names in needed.items():
        if importlib.util.find_spec(library) is None:
            files = [path for path in files if not names & set(path.parts)]
    return sorted(map(module_name, files))


def test_the_blocker_blocks():
    with pytest.raises(AssertionError, match="torch is blocked here"):
        python("import torch")


def test_every_promised_module_imports():
    names = torch_free_modules()
    assert {"dpkit", "dpkit.privacy", "dpkit.papers"} <= set(names)
    code = f"""
import importlib, json, traceback
failed = dict()
for name in {names!r}:
    try:
        importlib.import_module(name)
    except Exception:
        failed[name] = traceback.format_exc(limit=-2)
print(json.dumps(failed))
"""
    failed = json.loads(python(code))
    assert failed == {}, "\n".join(f"{name}:\n{reason}" for name, reason in failed.items())


def test_dir_of_a_package_shows_its_public_names_and_modules_alone():
    """Its `__all__`, or all modules where it has no names of its own; a paper's algorithm too."""
    wrong = []
    for file in sorted(PACKAGE.rglob("__init__.py")):
        name = ".".join(file.parent.relative_to(CHECKOUT).parts)
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError:  # without torch: few import it at once
            continue
        modules = {module.name for module in iter_modules(package.__path__)}
        listed = set(getattr(package, "__all__", modules))
        own = {*listed, *modules, "CLAIMS"}
        if "algorithm" in modules and importlib.util.find_spec("torch") is not None:
            own |= set(vars(package.algorithm))
            listed |= {"new_gan", "step"} & own
        shown = {one for one in dir(package) if not one.startswith("_")}
        if not listed <= shown <= own:
            wrong.append(f"{name}: not shown {listed - shown}, too much {shown - own}")
    assert not wrong, "\n".join(wrong)
    assert (PACKAGE / "py.typed").is_file()  # type checkers may read the types


def test_what_needs_torch_says_how_to_install_it():
    code = """
import json
from dpkit.papers import dp_cgan
def asked(give):
    try:
        give()
    except ModuleNotFoundError as error:
        return [error.name, str(error)]
def private():
    from dpkit import PrivateGan
print(json.dumps([asked(private), asked(lambda: dp_cgan.step)]))
"""
    for name, said in json.loads(python(code)):
        assert name == "torch"
        assert "pip install 'dpkit[train]'" in said


@pytest.mark.slow("a claim that imports torch as it is computed")
def test_every_claim_is_computed():
    found = json.loads(python("from dpkit.__main__ import main; main(['claims', '--json'])"))
    assert len({claim["paper"] for claim in found}) == 6
