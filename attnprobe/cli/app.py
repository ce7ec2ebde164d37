"""The program: its commands in order, its help, its exit codes, its last words."""

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args

import typer

from attnprobe import commands
from attnprobe.cli.session import run_command, run_words
from attnprobe.cli.stopping import ENDED, stopping
from attnprobe.errors import AttnprobeError, AttnprobeWarning, first_line, shorten
from attnprobe.files import known_reason
from attnprobe.model import lean
from attnprobe.options import MODEL, OUTPUT, TEXT
from attnprobe.registry import Command, Option
from attnprobe.reports.streams import discard_the_rest
from attnprobe.table.cells import clean

#: A line break within a paragraph; one stays before what is indented.
_BREAK = re.compile(r"(?<!\n)\n(?![\n ])")


def unwrap(docstring: str) -> str:
    r"""Unwrap the docstring of a command, so that each paragraph is one line.

    Typer would keep the line breaks of the source, and break its lines again where they are too long.

    >>> unwrap("What?\n\nThe entropy, in nats, and\nnot in bits.\n\nColumns:\n  entropy  in nats")
    'What?\n\nThe entropy, in nats, and not in bits.\n\nColumns:\n  entropy  in nats'
    """
    return _BREAK.sub(" ", docstring)


# What Typer raises for a wrong command line. It vendors Click, which is not ours to import.
_UsageError: Any = typer.BadParameter.__base__

#: The exit code after Ctrl-C. Typer turns the interrupt into it before we see it.
INTERRUPTED = ENDED + signal.SIGINT

#: Shows all options, where ``--help`` shows the usual ones.
_EVERYTHING = "--help-all"
#: What stands for a value in ``--help``, by its type.
_VALUES: Mapping[type, str] = {int: "N", float: "NUMBER"}

#: The panels of a command's help, in their order; what is in none stands first.
_PANELS = (None, TEXT, MODEL, OUTPUT)

#: Where commands are run that do more on a terminal than write a table.
_RUN_BY = {
    **dict.fromkeys(("doctor", "prune", "dynamics", "correlate"), "attnprobe.cli.showing"),
    **dict.fromkeys(("view", "report", "plot"), "attnprobe.cli.pages"),
}


def make_app(*, everything: bool = False) -> typer.Typer:
    """Make the program; its help shows the usual options of each command, or ``everything``."""
    app = typer.Typer(
        name="attnprobe",
        help="What every attention head of a pretrained checkpoint does, with error bars.\n\n"
        "Try: attnprobe entropy demo",
        epilog="MODEL is a hub id, a folder, or demo. Without -d, attnprobe reads sentences that ship with "
        "it. attnprobe COMMAND --help shows the usual options of a command, --help-all all of them.",
        rich_markup_mode="rich",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help", _EVERYTHING],
            # --batch_tokens is as good as --batch-tokens.
            "token_normalize_func": lambda word: word.replace("_", "-"),
        },
    )
    app.callback()(_root)
    panels = {name: panel for panel, names in commands.GROUPS.items() for name in names}
    for name, command in commands.COMMANDS.items():
        function = _make_function(command, everything=everything)
        app.command(name, help=unwrap(command.help), rich_help_panel=panels.get(name))(function)
    return app


def _make_function(command: Command, *, everything: bool) -> Callable[..., None]:
    def function(**given: Any) -> None:
        name = command.name
        run = getattr(import_module(_RUN_BY[name]), name) if name in _RUN_BY else run_command
        run(command, given)

    options = sorted(command.on_line.values(), key=_place_option)
    parameters = [
        Parameter(
            option.name,
            Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=_annotate(option, everything),
        )
        for option in options
    ]
    function.__name__ = command.name
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return function


def _place_option(option: Option) -> tuple[bool, int]:
    return not option.argument, _PANELS.index(option.panel)


def _annotate(option: Option, everything: bool) -> Any:
    shown: dict[str, Any] = {"help": option.help, "rich_help_panel": option.panel}
    shown["metavar"] = _name_value(option) if option.metavar is None else option.metavar
    if option.argument:
        return Annotated[option.line, typer.Argument(**shown)]
    hidden = option.hidden and not everything
    usual = isinstance(option.default, str | int | float) and not isinstance(option.default, bool)
    return Annotated[option.line, typer.Option(*option.flags, hidden=hidden, show_default=usual, **shown)]


def _name_value(option: Option) -> str:
    """Name what an option takes in one short word, so that the column of help stays wide."""
    if option.line is bool:
        return ""
    types = get_args(option.line) or (option.line,)
    return next((name for kind, name in _VALUES.items() if kind in types), "NAME")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"attnprobe {version('attnprobe')}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Hold the options of the program itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and leave with its exit code: 0, 1 for a failed check, 2 for bad input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    stopping.listen(words)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        lean.install()
    sys.exit(run(words))


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors become one sentence on standard error."""
    stopping.begin(words)
    try:
        code: Any = call_words(words)
    except _UsageError as error:
        return _explain_misuse(error, words)
    except SystemExit as leaving:
        code = leaving.code
    except AttnprobeError as error:
        return _complain(error, error.exit_code, words)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        discard_the_rest()
        return 0
    except Exception as error:
        return _complain(error, 2, words, _explain_unexpected(error))
    if code == INTERRUPTED:
        stopping.say()
        return stopping.code
    return int(code or 0)


def call_words(words: Sequence[str]) -> Any:
    """Call the command of a command line; errors are raised."""
    try:
        with run_words(words), _print_warnings(words):
            app = make_app(everything=_EVERYTHING in words)
            return app(args=list(words), prog_name="attnprobe", standalone_mode=False)
    except Exception as error:
        if stopping.received is not None:  # what a signal breaks is no error of its own
            raise KeyboardInterrupt from error
        raise


@contextmanager
def _print_warnings(words: Sequence[str]) -> Iterator[None]:
    """Print what a command warns of, unless it is to be quiet."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AttnprobeWarning)
        others = warnings.showwarning

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if not issubclass(category, AttnprobeWarning):
                others(message, category, *place, **more)
            elif not {"-q", "--quiet"} & set(words):
                print(f"attnprobe: {clean(str(message))}", file=sys.stderr)

        warnings.showwarning = show
        yield


def _explain_misuse(error: Any, words: Sequence[str]) -> int:
    # How the parser reports a choice that there is not is none of the user's business.
    said = error.format_message().rstrip(". ").replace(": Value error, ", ": ")
    if not said:  # no command at all; the help has been shown
        return 2
    command = error.ctx.command_path if error.ctx else "attnprobe"
    return _complain(error, 2, words, f"{said}{'' if said.endswith('?') else '.'} See `{command} --help`.")


def _explain_unexpected(error: Exception) -> str:
    where = {"MemoryError": "", "OutOfMemoryError": " on the device"}.get(type(error).__name__)
    if where is not None:
        return f"out of memory{where}; try a smaller --batch-tokens or --max-length."
    if isinstance(error, OSError) and (why := known_reason(error)) is not None:
        return f"{error.filename or 'a file'}: {why}."
    if "can't start new thread" in str(error):
        return "this machine starts no more threads; try a smaller --threads or --workers."
    return (
        f"unexpected {type(error).__name__}: {first_line(error)}. Run again with -v and report what it shows."
    )


def _complain(error: BaseException, code: int, words: Sequence[str], sentence: str | None = None) -> int:
    if "-v" in words or "--verbose" in words:
        import traceback

        traceback.print_exception(error)
    said = shorten(sentence or str(error)).rstrip()
    if not said.isprintable():  # names of files and models are in it
        said = clean(said)
    print(f"attnprobe: {said}{'' if said.endswith(('.', '!', '?')) else '.'}", file=sys.stderr)
    return code
