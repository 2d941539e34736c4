"""The command line: `python -m dpkit --help`."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from dpkit import __version__
from dpkit.commands import accounting, data, of_papers, sample, train
from dpkit.common.lazy import remedied

app = typer.Typer(
    name="dpkit",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Differentially private GANs: the epsilon claimed, proven and measured."
    "\n\nStart with: python -m dpkit claims\n\nEach command explains itself: python -m "
    "dpkit epsilon --help. With --json each prints one JSON value.",
)


def show_version(asked: bool) -> None:
    """Print the version and end, where it is asked for."""
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
app.command()(accounting.supports)
app.command()(train.train)
app.command()(sample.sample)
of_papers.added_to(app)
app.add_typer(data.app, name="data")

# What a user can cause: bad values, what is not installed or not there, computations that fail.
EXPECTED = (ValueError, ModuleNotFoundError, OSError, ArithmeticError)


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
    except Exception as error:
        # typer's usage errors, and parts that failed, know how to put themselves in words
        if not hasattr(error, "format_message"):
            raise
        fail(error.format_message())  # type: ignore[attr-defined]
    else:
        sys.exit(code if isinstance(code, int) else 0)


def fail(message: str) -> None:
    """Say what is wrong on one line and leave with exit code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
