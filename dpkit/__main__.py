"""The command line: `python -m dpkit --help`."""

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from dpkit import __version__
from dpkit.commands import accounting, checking, data, of_papers, sample, train
from dpkit.common.files import CHECKOUT, cache_dir, results_dir
from dpkit.common.lazy import remedied

app = typer.Typer(
    name="dpkit",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Differentially private GANs: the epsilon claimed, proven and measured."
    "\n\nStart with: python -m dpkit claims\n\nHelp on a command: python -m dpkit epsilon "
    "--help. With --json each prints one JSON value.",
)


def show_version(asked: bool) -> None:
    """Print the version and end if asked."""
    if asked:
        print(f"dpkit {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Take the options that come before a command."""


app.command()(accounting.epsilon)
app.command()(accounting.noise)
app.command()(train.train)
app.command()(sample.sample)
app.command()(checking.check)
of_papers.added_to(app)
app.add_typer(data.app, name="data")

# What a user can cause: bad values, what is not installed or not there, computations that fail.
EXPECTED = (ValueError, ModuleNotFoundError, ArithmeticError)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error is one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in ([], ["audit"], ["data"]):  # the commands that there are
        given.append("--help")
    try:
        with remedied():
            code = app(given, prog_name="python -m dpkit", standalone_mode=False)
    except typer.Abort:
        sys.exit(130)
    except EXPECTED as error:
        fail(str(error))
    except OSError as error:
        named = error.errno is not None and error.filename is not None
        words = f"{error.filename}: {error.strerror}" if named else str(error)
        fail(words + elsewhere(error, given))
    except Exception as error:
        # typer's usage errors, and parts that failed, know how to put themselves in words
        if not hasattr(error, "format_message"):
            raise
        fail(error.format_message() + elsewhere(error, given))  # type: ignore[attr-defined]
    else:
        sys.exit(code if isinstance(code, int) else 0)


def elsewhere(error: BaseException, given: Sequence[str]) -> str:
    """Return the option or variable that moves an error's file, or ""."""
    for one in getattr(error, "failures", {"": error}).values():
        if not isinstance(one, OSError) or not isinstance(one.filename, str):
            continue
        results = next((b for a, b in pairwise(given) if a == "--results"), results_dir())
        movable = {"--results FOLDER stores the results elsewhere": Path(results)}
        if not (cache := cache_dir()).is_relative_to(CHECKOUT):
            movable["XDG_CACHE_HOME=FOLDER moves the cache"] = cache
        file = Path(one.filename)
        for remedy, folder in movable.items():
            if file.is_relative_to(folder) or folder.is_relative_to(file):
                return f"; {remedy}"
    return ""


def fail(message: str) -> None:
    """Print the error on one line and exit with code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
