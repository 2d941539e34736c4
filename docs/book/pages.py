"""What the book makes of the package: a page for each part of the API, and words for pictures."""

import ast
import re
import shutil
from pathlib import Path

from docutils import nodes

CHECKOUT = Path(__file__).resolve().parents[2]
API = Path(__file__).parent / "api"
SKIPPED = {"__main__"}
CODE = "    "


def modules() -> list[str]:
    """Every public module of dpkit that defines something, by its full name."""
    found = []
    for path in sorted((CHECKOUT / "dpkit").rglob("*.py")):
        parts = path.relative_to(CHECKOUT).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        hidden = any(part.startswith("_") or part in SKIPPED for part in parts)
        if not hidden and (names(path) or path.stem == "__init__"):
            found.append(".".join(parts))
    return found


def names(path: Path) -> list[str]:
    """Public functions and classes that a file defines, in order; none of a sheet of exercises."""
    text = path.read_text(encoding="utf-8")
    body = [] if "sheet = Sheet(" in text else ast.parse(text).body
    defined = (node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return [node.name for node in defined if not node.name.startswith("_")]


def write_api(app: object = None) -> None:
    """Write one page for each part of dpkit, with all its modules, and a page that lists them."""
    API.mkdir(exist_ok=True)
    parts: dict[str, list[str]] = {}
    for module in modules():
        parts.setdefault(".".join(module.split(".")[:2]), []).append(module)
    for part, inside in parts.items():
        blocks = "\n".join(map(_block, inside))
        _write(API / f"{part}.md", f"# {part}\n\n{blocks}")
    listed = "\n".join(parts)
    _write(API / "index.md", f"# API\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n")


def _block(module: str) -> str:
    heading = f"## {module}\n\n" if module.count(".") > 1 else ""
    options = "   :members:\n   :ignore-module-all:\n"  # each name where it is defined
    return f"{heading}```{{eval-rst}}\n.. automodule:: {module}\n{options}```\n"


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def plain_docstring(app, what, name, thing, options, lines: list[str]) -> None:
    """Docstrings are plain text: what reStructuredText would read as markup is kept as it is."""
    marked, in_code = [], False
    for line in _listed(_with_code(lines)):
        in_code = line == "::" or (in_code and (not line.strip() or line.startswith(CODE)))
        marked.append(line if in_code else _plain(line))
    lines[:] = marked


def skipped(app, what, name, thing, skip, options) -> bool | None:
    """Leave out what scikit-learn's base class adds."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _with_code(lines: list[str]) -> list[str]:
    """The lines, with `::` before an indented block of code."""
    found: list[str] = []
    for line in lines:
        after_blank = found and not found[-1].strip()
        begins = after_blank and line.startswith(CODE)
        if begins and not any(one.startswith((CODE, "::")) for one in found[-3:]):
            found += ["::", ""]
        found.append(line)
    return found


def _listed(lines: list[str]) -> list[str]:
    """The lines, with `name: what it is` and its indented continuation as items of a list."""
    found: list[str] = []
    inside = False
    for line in lines:
        item = re.match(r"\w+(, \w+)*: ", line)
        goes_on = inside and line.startswith("    ")
        if bool(item) != inside and not goes_on:
            found.append("")
        if item or not goes_on:
            inside = bool(item)
        found.append(f"- {line}" if item else f"  {line.strip()}" if goes_on else line)
    return found


def _plain(line: str) -> str:
    if bullet := re.match(r"\s*[*-] ", line):
        return bullet[0] + _escaped(line[bullet.end() :])
    if re.match(r"\s*(:\w+|\.\. )", line):  # what napoleon made of Args and Raises
        field, colon, rest = line.partition(": ")
        return field + colon + _escaped(rest) if colon else line
    return _escaped(line)


def _escaped(text: str) -> str:
    pieces = re.split(r"(``.+?``|`[^`]+`|:\w+:`[^`]+`|\*\*?\w[^*]*\*\*?)", text)
    return "".join(
        f"``{piece.strip('`')}``"
        if piece.startswith("`")
        else piece
        if index % 2
        else re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", piece)
        for index, piece in enumerate(pieces)
    )


def copy_lab(app, exception: Exception | None) -> None:
    """Put the Lab, which is pages of its own, beside the book's, with links to those."""
    if exception is None:
        lab = Path(app.outdir) / "docs/lab"
        shutil.copytree(CHECKOUT / "docs/lab", lab, dirs_exist_ok=True)
        text = (lab / "index.html").read_text(encoding="utf-8")
        _write(lab / "index.html", re.sub(r'(href="\.\./[^"]+)\.md"', r'\1.html"', text))


def describe_pictures(app, doctree: nodes.document, docname: str) -> None:
    """Give each picture of a notebook the words that stand below it; lead its cards to pages."""
    for raw in doctree.findall(nodes.raw):
        if docname.startswith("notebooks/") and ".ipynb'" in raw.astext():
            raw.children = [
                nodes.Text(re.sub(r"(href='\d\d_\w+)\.ipynb'", r"\1.html'", raw.astext()))
            ]
    for image in doctree.findall(nodes.image):
        if docname.startswith("notebooks/"):
            image["alt"] = _words_after(image)


def _words_after(image: nodes.image) -> str:
    """The text of the first HTML output after a picture."""
    parent = image
    while parent.parent is not None and not parent.next_node(
        nodes.raw, siblings=True, descend=False
    ):
        parent = parent.parent
    raw = parent.next_node(nodes.raw, siblings=True, descend=True) if parent.parent else None
    return re.sub(r"<[^>]+>", "", raw.astext()).strip() if raw else ""
