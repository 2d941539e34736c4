"""The size budget: what comes in pushes something out. Lower it when something leaves."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "dpkit"
LINES = {"library": 26_000, "papers": 20_680, "course": 5_870, "tests": 43_600}
STATEMENTS = {"library": 13_375, "papers": 8_145, "course": 2_950}
DEFINITIONS, FILES, ENTRIES = 3_100, 290, 12
CHARACTERS = 2_130_600  # of dpkit: a limit is not met by longer lines


def group(path: Path) -> str:
    """ "library", "papers" or "course"."""
    first = path.relative_to(PACKAGE).parts[0]
    return first if first in ("papers", "course") else "library"


@cache
def texts() -> dict[Path, str]:
    """Every text file of the package, with what it holds."""
    kept = (".py", ".md", ".html", ".txt", ".json")
    found = (path for path in sorted(PACKAGE.rglob("*")) if path.is_file())
    return {path: path.read_text(encoding="utf-8") for path in found if path.suffix in kept}


@cache
def trees() -> dict[Path, list[ast.AST]]:
    """The nodes of every module's syntax tree."""
    modules = (path for path in texts() if path.suffix == ".py")
    return {path: list(ast.walk(ast.parse(texts()[path]))) for path in modules}


def test_lines_and_statements_are_within_budget():
    lines, statements = Counter[str](), Counter[str]()
    for path, text in texts().items():
        lines[group(path)] += len(text.splitlines())
    for path in (CHECKOUT / "tests").rglob("*.py"):
        lines["tests"] += len(path.read_text(encoding="utf-8").splitlines())
    for path, nodes in trees().items():
        statements[group(path)] += sum(isinstance(node, ast.stmt) for node in nodes)
    print(dict(lines), dict(statements))
    assert all(lines[name] <= most for name, most in LINES.items()), lines
    assert all(statements[name] <= most for name, most in STATEMENTS.items()), statements


def test_definitions_files_and_entries_are_few():
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    definitions = sum(isinstance(node, kinds) for nodes in trees().values() for node in nodes)
    top, papers = (
        [one.name for one in folder.iterdir() if one.suffix in ("", ".py") and one.name[0] != "_"]
        for folder in (PACKAGE, PACKAGE / "papers")
    )
    print(definitions, len(trees()), top, papers)
    assert definitions <= DEFINITIONS
    assert len(trees()) <= FILES
    assert len(top) <= ENTRIES, top
    assert len(papers) <= ENTRIES, papers


def test_characters_are_within_budget():
    """In all: where short lines leave, the mean of those that stay rises."""
    held = sum(len(line) for text in texts().values() for line in text.splitlines())
    print(held)
    assert held <= CHARACTERS, held
