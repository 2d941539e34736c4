"""The code of an algorithm's step, as a notebook shows it beside the paper's listing."""

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any, NamedTuple


class StepSource(NamedTuple):
    """Python code, set as such in a notebook."""

    code: str

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.code}\n```"


def step_source(*functions: Callable[..., Any]) -> StepSource:
    """The code of functions, one after another, without their docstrings."""
    return StepSource("\n\n\n".join(map(_without_docstring, functions)))


def _without_docstring(function: Callable[..., Any]) -> str:
    text = dedent(inspect.getsource(function))
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    lines, said = text.splitlines(), node.body[0]
    if ast.get_docstring(node):
        del lines[said.lineno - 1 : said.end_lineno]
    return "\n".join(lines)
