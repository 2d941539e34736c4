"""Accountants, settings and claims work, and answer quickly, where torch cannot be imported."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
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
    result = subprocess.run(
        [sys.executable, "-c", BLOCK + code],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


TRAINS = {
    "synthesizers/feature_matching.py",
    "metrics/judge.py",
    "metrics/trained_on_synthetic.py",
    "papers/experiments/run.py",
}
PLANS = (  # of private
    *("__init__", "budget", "gan_settings", "plan", "statement"),
    *("one_release", "images", "table"),
)
PROMISED = ("__init__", "settings", "claims", "tables")  # of each paper, with what they import


def torch_free_modules() -> list[str]:
    """Every module that is promised to import without torch and exists."""
    whole = (
        "privacy",
        "datasets",
        "audit",
        "common",
        "metrics",
        "commands",
        "synthesizers/marginals",
        "course",
        "papers/experiments",
        "papers/claims",
        "papers/commands",
        "papers/targets",
    )
    files = [path for name in whole for path in (PACKAGE / name).rglob("*.py")]
    files += [path for path in PACKAGE.glob("*.py") if path.name != "__main__.py"]
    files += [
        *PACKAGE.glob("synthesizers/*.py"),
        *PACKAGE.glob("papers/*.py"),
        PACKAGE / "training" / "__init__.py",
    ]
    files += [path for path in PACKAGE.glob("papers/*/*.py") if path.stem in PROMISED]
    files += [path for path in PACKAGE.glob("private/*.py") if path.stem in PLANS]
    files = [path for path in files if path.relative_to(PACKAGE).as_posix() not in TRAINS]
    files = [path for path in files if path.parent != PACKAGE / "audit" / "training"]
    if importlib.util.find_spec("matplotlib") is None:
        files = [one for one in files if one.name not in ("plots.py", "diagrams.py")]
    if importlib.util.find_spec("ipywidgets") is None:
        files = [path for path in files if "explorers" not in path.parts]
    dotted = (".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in files)
    return sorted({name.removesuffix(".__init__") for name in dotted})


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


def test_type_checkers_may_read_the_types():
    assert (PACKAGE / "py.typed").is_file()


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
        assert "pip install 'torch>=" in said


def test_every_paper_shows_its_claims():
    """Each paper's CLAIMS can be listed: ids are its own, no two alike."""
    code = """
import json
from dpkit import papers
every = papers.with_claims()
print(json.dumps({paper.NAME: [claim.id for claim in paper.CLAIMS] for paper in every}))
"""
    claims = json.loads(python(code))
    assert len(claims) == 6
    for name, ids in claims.items():
        assert ids, f"{name} has no claims"
        assert len(ids) == len(set(ids))
        assert {claim.split("/")[0] for claim in ids} == {name}


def test_the_package_and_its_accountants_leave_torch_alone():
    """Also where torch is installed: importing it would cost seconds."""
    code = "import sys, dpkit, dpkit.privacy, dpkit.papers; print('torch' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
