"""Rules of the source of dpkit as a whole, read from its syntax trees without importing it.

One test a rule: it lists all offenders, as `file:line` or `file: what`.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = sorted((CHECKOUT / "dpkit").rglob("*.py"))
LONGEST_FILE = 600  # lines; CONTRIBUTING's tenth rule

# The library imports neither papers nor course, and papers do not import the course. Within them a
# part imports itself and parts of a lower floor, never its own floor or a higher one. One that is
# missing here fails the test: give it its place when it is added.
FLOORS = {
    **{"common": 0, "privacy": 1, "datasets": 1, "training": 2, "synthesizers": 2},
    **{"private": 3, "synthesizers.warm_gan": 4, "audit": 4, "metrics": 4, "commands": 5},
    **{"__main__": 6, "papers.claims": 7, "papers.experiments": 7, "papers.literature": 8},
    **{"papers.dp_cgan": 9, "papers.dpgan": 9, "papers.rdp_gan": 9, "papers.small_images": 9},
    **{"papers.adadp": 9, "papers": 10, "papers.targets.target": 8, "papers.targets": 11},
    **{"papers.comparison": 10, "papers.report": 10, "papers.commands": 12, "course": 13},
}
# Texts and plots are for those who show things: nothing else builds on them.
SHOWING = ("common.show", "common.plots")
MAY_SHOW = {"course", "papers.report", "papers.commands", "commands", "__main__"}
# a sentence is all that they make
STATEMENTS = ("dpkit/privacy/statement.py", "dpkit/privacy/risk.py")
# Parts that need torch as a whole; elsewhere only functions that need it import it.
TORCH_PARTS = {"training", "private"}
TORCH_FREE_IN_PAPERS = {"__init__.py", "settings.py", "claims.py", "tables.py"}
TORCH_ELSEWHERE = {  # a network that is trained, and what trains any
    *("dpkit/synthesizers/feature_matching.py", "dpkit/metrics/judge.py"),
    *("dpkit/metrics/trained_on_synthetic.py", "dpkit/papers/comparison/experiments.py"),
    *("dpkit/papers/comparison/methods.py", "dpkit/papers/experiments/run.py"),
    "dpkit/synthesizers/warm_gan/step.py",
}
TORCH_FREE_IN_TRAINING = {"dpkit/training/__init__.py", "dpkit/training/optimizers.py"}
TORCH_FREE_IN_PRIVATE = {  # what is planned, priced and stated, and one release
    f"dpkit/private/{name}.py"
    for name in (*("__init__", "budget", "plan", "statement"), *("images", "table"))
}
TORCH = {"torch", "torchvision", "opacus", "safetensors.torch"}
# The parts that talk to a terminal; everything else returns what it has to say.
MAY_PRINT = {"commands", "papers.commands", "course", "__main__"}


def none(found: Iterable[str]) -> None:
    """Fail with a line for each offender where there is any."""
    assert not (lines := list(found)), "\n".join(lines)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(name: str) -> str:
    """The part that a module belongs to: of FLOORS the longest that its name begins with.

    Where none does, its first name below dpkit.
    """
    parts = name.split(".")[1:]
    held = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((one for one in held if one in FLOORS), ".".join(parts[:1]))


def part(path: Path) -> str:
    """The part of dpkit that a file belongs to."""
    return place(module_name(path))


def module_name(path: Path) -> str:
    """As it is imported; a package's is its folder's."""
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


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


def name_of(path: Path) -> str:
    """As messages and sets of exceptions name a file: from the checkout's root on."""
    return path.relative_to(CHECKOUT).as_posix()


def test_imports_go_one_way():
    """Two papers share a floor, so that neither imports the other."""
    inner = [path for path in FILES if part(path)]  # dpkit's own __init__ names every part
    placeless = sorted({part(path) for path in inner} - set(FLOORS))
    none(f"{name} needs a place in FLOORS" for name in placeless)
    none(
        f"{name_of(path)}:{line} imports {other}"
        for path in inner
        for line, name in imported(ast.walk(tree(path)))
        if (other := place(name) if name.startswith("dpkit.") else "")
        not in ("", "__version__", part(path))
        and FLOORS.get(other, -1) >= FLOORS[part(path)]
    )


def test_the_library_names_neither_papers_nor_course():
    """Not in a string that is imported later either; but for what `commands` adds."""
    others = tuple(CHECKOUT / "dpkit" / name for name in ("papers", "course"))
    library = [path for path in FILES if not set(others) & set(path.parents)]
    library.remove(CHECKOUT / "dpkit/commands/of_papers.py")
    none(matches(r"dpkit\.(?:papers|course)\b", library))


def test_only_what_shows_things_imports_texts_and_plots():
    none(
        f"{name_of(path)}:{line} imports {name}"
        for path in FILES
        if part(path) not in (*MAY_SHOW, "common") and name_of(path) not in STATEMENTS
        for line, name in imported(ast.walk(tree(path)))
        if name.removeprefix("dpkit.").startswith(SHOWING)
    )


def needs(module: ast.Module, among: set[str]) -> set[str]:
    """The modules among these that one imports; `from a import b` needs a.b, or a of which b is."""
    names = (name for _, name in imported(ast.walk(module)))
    return {name if name in among else name.rpartition(".")[0] for name in names} & among


def circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Modules of which each needs the next and the last is the first, until no circle is left.

    Each circle is broken at its first import before the next is looked for.
    """
    graph = {name: set(needed) for name, needed in graph.items()}
    while True:
        try:
            return TopologicalSorter(graph).prepare()
        except CycleError as error:
            found = error.args[1][::-1]
            yield found
            graph[found[0]].discard(found[1])


def test_no_imports_go_in_a_circle():
    """Not in functions or for type checkers either: what two modules share lies below both."""
    modules = {module_name(path): tree(path) for path in FILES}
    graph = {name: needs(module, set(modules)) for name, module in modules.items()}
    none(" -> ".join(each) for each in circles(graph))


@pytest.mark.parametrize("hidden", ["if TYPE_CHECKING:\n    ", "def late():\n    ", ""])
def test_a_circle_is_found_wherever_it_hides(hidden: str):
    sources = {
        "dpkit.loop": "from dpkit.keeper import kept",
        "dpkit.keeper": f"{hidden}from dpkit import loop",
        "dpkit.other": "import dpkit.loop",
    }
    graph = {name: needs(ast.parse(source), set(sources)) for name, source in sources.items()}
    (found,) = circles(graph)
    assert (set(found), found[0]) == ({"dpkit.loop", "dpkit.keeper"}, found[-1])
    two = graph | {"dpkit.one": {"dpkit.two"}, "dpkit.two": {"dpkit.one"}}
    assert len(list(circles(two))) == 2
    del graph["dpkit.keeper"]
    assert list(circles(graph)) == []


def needs_torch(path: Path) -> bool:
    """Whether a module may import torch when it is imported itself."""
    name = name_of(path)
    if name.startswith("dpkit/audit/training/"):  # attacks on training
        return True
    if part(path) in TORCH_PARTS:
        return name not in TORCH_FREE_IN_TRAINING | TORCH_FREE_IN_PRIVATE
    if FLOORS.get(part(path)) == FLOORS["papers.adadp"]:
        return path.name not in TORCH_FREE_IN_PAPERS
    return name in TORCH_ELSEWHERE


def test_torch_is_imported_only_where_it_is_needed():
    """Elsewhere the function that needs it imports it; a claim's does without it."""
    none(
        f"{name_of(path)}:{line} imports {name}"
        for path in FILES
        if not needs_torch(path)
        for line, name in imported(
            ast.walk(tree(path)) if path.name == "claims.py" else on_import(tree(path).body)
        )
        if any(f"{name}.".startswith(f"{library}.") for library in TORCH)
    )


def test_a_file_is_one_concept_and_not_long_and_public_names_have_docstrings():
    for path in FILES:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= LONGEST_FILE, f"{name_of(path)} has {lines} lines"
    none(
        f"{name_of(path)}: {getattr(node, 'name', 'the module')} has no docstring"
        for path in FILES
        for node in (tree(path), *tree(path).body)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and not getattr(node, "name", "").startswith("_")
        and not ast.get_docstring(node)
    )


def test_no_relative_import_and_only_the_command_line_prints():
    """`from dpkit...`, so that a file can be read on its own; what is to be printed is returned.

    That nothing sets a global seed, the linter sees (banned-api, in pyproject.toml).
    """
    none(
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path in FILES
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.ImportFrom) and node.level)
        or (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "print"
            and part(path) not in MAY_PRINT
        )
    )


def matches(pattern: str, paths: Iterable[Path]) -> Iterator[str]:
    """`file: match` of every match of a pattern in these files."""
    for path in paths:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            yield from (f"{name_of(path)}: {match}" for match in re.findall(pattern, text))


def test_nothing_is_left_unfinished_or_names_a_folder_of_one_machine():
    """A folder is written relative to the checkout, or left out."""
    none(matches(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", FILES))
    patterns = ("notebooks/*", "binder/*", "data/**/*.json", "*.md", "data/README.md", "Makefile")
    texts = [*FILES, *(path for pattern in patterns for path in CHECKOUT.glob(pattern))]
    none(matches(r"(?<![\w.~$}/+])/(?:home|root|tmp|work|Users|mnt|private)/[\w.-]+", texts))
