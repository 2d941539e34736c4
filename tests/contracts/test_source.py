"""What the source of dpkit promises as a whole, read from its syntax trees without importing it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = sorted((CHECKOUT / "dpkit").rglob("*.py"))
NAMES = [str(path.relative_to(CHECKOUT)) for path in FILES]
LONGEST_FILE, MEDIAN_FILE, MEDIAN_FUNCTION = 350, 150, 8  # lines; CONTRIBUTING's tenth rule

# A part of dpkit imports itself and parts of a lower layer, never its own layer or a higher one.
# One that is missing here fails the test: give it its place when it is added.
LAYERS = {
    "paths": 0,
    "missing": 0,
    "lazy": 1,
    "checks": 0,
    "show": 0,
    "memory_guard": 1,
    "records": 1,
    "code_lines": 1,
    "privacy": 2,
    "claims": 2,
    "datasets": 2,
    "training": 3,
    "baselines": 3,
    "marginals": 3,
    "experiments": 4,
    "private": 4,
    "audit": 5,
    "metrics": 5,
    "warm_gan": 5,
    "papers": 6,
    "plots": 6,
    "diagrams": 7,
    "comparison": 7,
    "explorers": 8,
    "report": 7,
    "commands": 8,
    "exercises": 8,
    "__main__": 9,
}
# Texts and plots are for those who show things: nothing else builds on them.
SHOWING = {"show", "plots"}
MAY_SHOW = {"diagrams", "explorers", "report", "commands", "__main__"}
STATEMENT = "dpkit/privacy/statement.py"  # a sentence is all that it makes
# Parts that need torch as a whole; elsewhere only functions that need it import it.
TORCH_PARTS = {"training", "private"}
TORCH_FREE_IN_PAPERS = {"__init__.py", "settings.py", "claims.py", "tables.py"}
TORCH_ELSEWHERE = {  # a network that is trained, and what trains any
    "dpkit/baselines/feature_matching.py",
    "dpkit/metrics/judge.py",
    "dpkit/metrics/feature_classifier.py",
    "dpkit/metrics/trained_on_synthetic.py",
    "dpkit/comparison/experiments.py",
    "dpkit/comparison/gans.py",
    "dpkit/comparison/methods.py",
    "dpkit/comparison/recipe.py",
    "dpkit/experiments/run.py",
    "dpkit/experiments/trial.py",
    *(f"dpkit/warm_gan/{name}.py" for name in ("estimator", "networks", "step")),
}
TORCH_FREE_IN_TRAINING = {"dpkit/training/__init__.py", "dpkit/training/optimizers.py"}
TORCH_FREE_IN_PRIVATE = {  # what is planned, priced and stated, and one release
    f"dpkit/private/{name}.py"
    for name in (
        *("__init__", "budget", "gan_settings", "plan", "statement"),
        *("one_release", "image_records", "images", "table"),
    )
}
TORCH = {"torch", "torchvision", "opacus", "safetensors.torch"}
# The parts that talk to a terminal; everything else returns what it has to say.
MAY_PRINT = {"commands", "exercises", "__main__"}
GLOBAL_SEEDS = {
    "torch.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "np.random.seed",
    "numpy.random.seed",
    "random.seed",
}

every_file = pytest.mark.parametrize("path", FILES, ids=NAMES)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def part(path: Path) -> str:
    """The part of dpkit a file belongs to: the first name below dpkit."""
    return path.relative_to(CHECKOUT / "dpkit").parts[0].removesuffix(".py")


def imported(nodes: Iterator[ast.AST] | list[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, full name) of everything imported; `from a import b` counts as a.b."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def on_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The statements that importing a module runs: not its functions, not `if TYPE_CHECKING`."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from on_import(statement.orelse)
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from on_import(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from on_import(handler.body)


@every_file
def test_imports_go_one_way(path: Path):
    here = part(path)
    if here == "__init__":  # names every part, and imports each on first use
        return
    assert here in LAYERS, f"{here} has no place in LAYERS of {Path(__file__).name}"
    for line, name in imported(ast.walk(tree(path))):
        segments = name.split(".")
        if segments[0] != "dpkit" or len(segments) == 1 or segments[1] in (here, "__version__"):
            continue
        other = segments[1]
        assert LAYERS.get(other, -1) < LAYERS[here], f"line {line}: {here} imports {other}"
        shows = here in MAY_SHOW or path == CHECKOUT / STATEMENT
        assert other not in SHOWING or shows, f"line {line}: {here} imports {other}"


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.parent.parent.name == "papers"],
    ids=[
        name for path, name in zip(FILES, NAMES, strict=True) if path.parent.parent.name == "papers"
    ],
)
def test_papers_do_without_each_other(path: Path):
    shared = {file.stem for file in path.parents[1].glob("*.py")}
    for line, name in imported(ast.walk(tree(path))):
        here = name.startswith("dpkit.papers.") and name.split(".")[2]
        other = here and here not in {path.parent.name, *shared}
        assert not other, f"line {line} imports {name}: what two papers use is no paper's"


def module_name(path: Path) -> str:
    """As it is imported; a package's is its folder's."""
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def needs(module: ast.Module, among: set[str]) -> set[str]:
    """The modules among these that one imports; `from a import b` needs a.b, or a of which b is."""
    names = (name for _, name in imported(ast.walk(module)))
    return {name if name in among else name.rpartition(".")[0] for name in names} & among


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules of which each needs the next and the last is the first; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def test_no_imports_go_in_a_circle():
    """Not in functions or for type checkers either: what two modules share lies below both."""
    modules = {module_name(path): tree(path) for path in FILES}
    found = circle({name: needs(module, set(modules)) for name, module in modules.items()})
    assert found == [], " -> ".join(found)


@pytest.mark.parametrize("hidden", ["if TYPE_CHECKING:\n    ", "def late():\n    ", ""])
def test_a_circle_is_found_wherever_it_hides(hidden: str):
    sources = {
        "dpkit.loop": "from dpkit.keeper import kept",
        "dpkit.keeper": f"{hidden}from dpkit import loop",
        "dpkit.other": "import dpkit.loop",
    }
    graph = {name: needs(ast.parse(source), set(sources)) for name, source in sources.items()}
    found = circle(graph)
    assert (set(found), found[0]) == ({"dpkit.loop", "dpkit.keeper"}, found[-1])
    del graph["dpkit.keeper"]
    assert circle(graph) == []


@every_file
def test_imports_name_their_package(path: Path):
    relative = [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == [], "write `from dpkit...`, so that a file can be read on its own"


def needs_torch(path: Path) -> bool:
    """Whether a module may import torch when it is imported itself."""
    if path.parent == CHECKOUT / "dpkit" / "audit" / "training":  # attacks on training
        return True
    if part(path) in TORCH_PARTS:
        return path.relative_to(CHECKOUT).as_posix() not in (
            TORCH_FREE_IN_TRAINING | TORCH_FREE_IN_PRIVATE
        )
    if part(path) == "papers":
        return path.name not in TORCH_FREE_IN_PAPERS
    return path.relative_to(CHECKOUT).as_posix() in TORCH_ELSEWHERE


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if not needs_torch(path)],
    ids=[name for path, name in zip(FILES, NAMES, strict=True) if not needs_torch(path)],
)
def test_torch_is_imported_only_where_it_is_needed(path: Path):
    for line, name in imported(on_import(tree(path).body)):
        found = any(f"{name}.".startswith(f"{library}.") for library in TORCH)
        assert not found, f"line {line} imports {name}: do so inside the function that needs it"


def test_files_and_functions_are_short():
    sizes = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    bodies = [
        _body_lines(node)
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef)
    ]
    assert {name: lines for name, lines in sizes.items() if lines > LONGEST_FILE} == {}
    assert median(sizes.values()) <= MEDIAN_FILE
    assert median(bodies) <= MEDIAN_FUNCTION


def _body_lines(function: ast.FunctionDef) -> int:
    """Lines of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@every_file
def test_public_names_have_docstrings(path: Path):
    body = tree(path).body
    public = [
        node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert ast.get_docstring(tree(path)), "the module has no docstring"
    assert [node.name for node in public if not ast.get_docstring(node)] == []


@every_file
def test_no_global_seed(path: Path):
    """Randomness comes in through `rng`; `seeded` alone forks torch's global state."""
    exempt = [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and node.name == "seeded"
    ]
    allowed = {id(node) for function in exempt for node in ast.walk(function)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and id(node) not in allowed:
            assert ast.unparse(node) not in GLOBAL_SEEDS, f"line {node.lineno}: pass rng on instead"


@every_file
def test_only_the_command_line_prints(path: Path):
    if part(path) in MAY_PRINT:
        return
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    prints = [node.lineno for node in calls if ast.unparse(node.func) == "print"]
    assert prints == [], "return or yield it: printing is the caller's"


@every_file
def test_nothing_is_left_unfinished(path: Path):
    found = re.findall(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", path.read_text("utf-8"))
    assert found == []


TEXTS = [
    *FILES,
    *(CHECKOUT / "notebooks").glob("*"),
    *(CHECKOUT / "binder").glob("*"),
    *(CHECKOUT / "data").rglob("*.json"),
    *CHECKOUT.glob("*.md"),
    CHECKOUT / "data" / "README.md",
    CHECKOUT / "Makefile",
]
TEXTS = [path for path in TEXTS if path.is_file()]


@pytest.mark.parametrize("path", TEXTS, ids=[str(path.relative_to(CHECKOUT)) for path in TEXTS])
def test_nothing_names_a_folder_of_one_machine(path: Path):
    folders = re.findall(
        r"(?<![\w.~$}/+])/(?:home|root|tmp|work|Users|mnt|private)/[\w.-]+",
        path.read_text(encoding="utf-8", errors="replace"),
    )
    assert folders == [], "write it relative to the checkout, or leave it out"
