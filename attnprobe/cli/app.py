"""The command line: commands, help, exit codes, and errors as one sentence each."""

import re
import signal
import sys
from collections.abc import Sequence
from functools import partial
from inspect import Signature
from typing import Annotated, Any, get_args

import typer

from attnprobe import commands
from attnprobe.cli.output import run_command
from attnprobe.cli.stopping import ENDED, stopping
from attnprobe.errors import AttnprobeError, first_line, shorten
from attnprobe.options import MODEL, OUTPUT, TEXT
from attnprobe.registry import Option
from attnprobe.reports.streams import discard_the_rest
from attnprobe.session.session import forward_warnings
from attnprobe.table.cells import clean

#: The exit code after Ctrl-C. Typer turns the interrupt into it before we see it.
INTERRUPTED = ENDED + signal.SIGINT
#: Shows all options, where ``--help`` shows the usual ones.
_EVERYTHING = "--help-all"
#: Other names of options.
_OTHER_NAMES = {"target-column": "label-column"}
#: What stands for a value in ``--help``, by its type.
_VALUES = {int: "N", float: "NUMBER"}
#: The panels of a command's help, in their order; what is in none stands first.
_PANELS = (None, TEXT, MODEL, OUTPUT)
#: A line break within a paragraph; one stays before what is indented.
_BREAK = re.compile(r"(?<!\n)\n(?![\n ])")
# What Typer raises for a wrong command line. It vendors Click, which is not ours to import.
_UsageError: Any = typer.BadParameter.__base__


def make_app(*, everything: bool = False) -> typer.Typer:
    """Make the program; its help shows the usual options of each command, or ``everything``."""
    app = typer.Typer(
        name="attnprobe",
        help="Measure what every attention head of a pretrained checkpoint does, with error bars.\n\n"
        "Try: attnprobe entropy demo",
        epilog="MODEL is a hub id, a folder, or demo. Without -d, attnprobe reads built-in sentences. "
        "attnprobe COMMAND --help shows the usual options of a command, --help-all all options.",
        rich_markup_mode="rich",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help", _EVERYTHING],
            "token_normalize_func": _normalise,
        },
    )
    app.callback()(_root)
    panels = {name: panel for panel, names in commands.GROUPS.items() for name in names}
    for name, command in commands.COMMANDS.items():
        function: Any = partial(run_command, command)
        options = sorted(command.on_line.values(), key=lambda option: _PANELS.index(option.panel))
        annotations = {option.name: _annotate(option, everything) for option in options}
        parameters = [option.make_parameter(option.name, annotations[option.name]) for option in options]
        function.__annotations__, function.__signature__ = annotations, Signature(parameters)
        help = _BREAK.sub(" ", command.help)  # Typer breaks lines itself
        app.command(name, help=help, rich_help_panel=panels.get(name, "More"))(function)
    return app


def _normalise(word: str) -> str:
    """Take --batch_tokens for --batch-tokens, and the other name of an option for its name."""
    word = word.replace("_", "-")
    return _OTHER_NAMES.get(word, word)


def _annotate(option: Option, everything: bool) -> Any:
    """Make the Typer annotation of an option; help hides unusual options unless ``everything`` is true."""
    metavar = option.metavar
    if metavar is None:  # one short word, so that the column of help stays wide
        types = get_args(option.line) or (option.line,)
        value = next((name for kind, name in _VALUES.items() if kind in types), "NAME")
        metavar = "" if option.line is bool else value
    shown: dict[str, Any] = {"help": option.help, "rich_help_panel": option.panel, "metavar": metavar}
    if option.argument:
        return Annotated[option.line, typer.Argument(**shown)]
    hidden = option.hidden and not everything
    usual = isinstance(option.default, str | int | float) and not isinstance(option.default, bool)
    return Annotated[option.line, typer.Option(*option.flags, hidden=hidden, show_default=usual, **shown)]


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
    """Take the options that stand before a command."""


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors become one sentence on standard error."""
    stopping.reset(words)
    code: Any
    try:
        with forward_warnings(_print_warning):
            app = make_app(everything=_EVERYTHING in words)
            code = app(args=list(words), prog_name="attnprobe", standalone_mode=False)
    except SystemExit as leaving:
        code = leaving.code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        # What a signal breaks is no error of its own.
        if not isinstance(error, typer.Abort) and stopping.received is None:
            return _complain(error, words)
        code = INTERRUPTED
    if code == INTERRUPTED:
        stopping.report()
        return stopping.code
    return int(code or 0)


def _print_warning(sentence: str) -> None:
    if not {"-q", "--quiet"} & set(stopping.words):
        print(f"attnprobe: {clean(sentence)}", file=sys.stderr)


def _complain(error: Exception, words: Sequence[str]) -> int:
    """Print an error as one sentence on standard error; return the exit code. A closed pipe is no error."""
    if isinstance(error, BrokenPipeError):
        discard_the_rest()
        return 0
    if {"-v", "--verbose"} & set(words):
        import traceback

        traceback.print_exception(error)
    sentence = _explain(error)
    if not sentence:  # no command at all; the help has been shown
        return 2
    sentence = shorten(sentence).rstrip()
    if not sentence.isprintable():  # names of files and models are in it
        sentence = clean(sentence)
    print(f"attnprobe: {sentence}{'' if sentence.endswith(('.', '!', '?')) else '.'}", file=sys.stderr)
    return error.exit_code if isinstance(error, AttnprobeError) else 2


def _explain(error: Any) -> str:
    if isinstance(error, AttnprobeError):
        return str(error)
    if isinstance(error, _UsageError):
        sentence = error.format_message().rstrip(". ").replace(": Value error, ", ": ")
        end = "" if sentence.endswith("?") else "."
        name = error.ctx.command_path if error.ctx else "attnprobe"
        return sentence and f"{sentence}{end} See `{name} --help`."
    where = {"MemoryError": "", "OutOfMemoryError": " on the device"}.get(type(error).__name__)
    if where is not None:
        return f"out of memory{where}; try a smaller --batch-tokens or --max-length."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}."
    problem = f"unexpected {type(error).__name__}: {first_line(error)}"
    return f"{problem}. Run again with -v and report what it shows."
