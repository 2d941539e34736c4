"""The code of a step stands in a notebook as it is written, but for its docstring."""

from dpkit.course.step_source import step_source


def one(a: int) -> int:
    """Says what it does.

    In two parts.
    """
    # line 1
    return a + 1  # line 2


def other() -> str:
    return """no docstring"""


def test_code_stays_with_its_comments_and_without_its_docstring():
    shown = step_source(one, other)
    assert shown.code == (
        "def one(a: int) -> int:\n    # line 1\n    return a + 1  # line 2\n\n\n"
        'def other() -> str:\n    return """no docstring"""'
    )
    assert repr(shown) == shown.code
    assert shown._repr_markdown_() == f"```python\n{shown.code}\n```"
