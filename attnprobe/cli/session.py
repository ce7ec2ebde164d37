"""A run of a command: from options to a call of the library, and from its table to where it goes."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.cli.stopping import stopping
from attnprobe.errors import AttnprobeError
from attnprobe.registry import Command, split_names
from attnprobe.reports.streams import TerminalProgress
from attnprobe.table.cells import clean

if TYPE_CHECKING:
    from attnprobe.table.destination import Destination
    from attnprobe.table.table import HeadTable

#: What was given on the command line, by the names of its options.
Given = Mapping[str, Any]
#: The words of the command line that runs.
_words: ContextVar[Sequence[str]] = ContextVar("attnprobe_words", default=())
#: What stands for standard input as data, and for standard output as a file.
_STREAM = "-"


def prepare(command: Command, given: Given) -> None:
    """Refuse a bad destination and set the environment, before anything slow is imported."""
    check_destination(given, list_read(command, given))
    set_environment()


def prepare_picture(command: Command, given: Given, formats: Sequence[str]) -> Path | None:
    """Do the same for a picture, and return its file, in one of these formats; None where it has none."""
    path = given["output"]
    if path is not None:
        from attnprobe.table.destination import check_apart, check_free_file

        path = check_free_file(path, formats, given["overwrite"])
        check_apart(path, [Path(name) for name in list_read(command, given) if name != _STREAM])
    set_environment()
    return path


def list_read(command: Command, given: Given) -> list[str]:
    """List what is read, as the options name it."""
    found: list[str] = []
    for name, option in command.on_line.items():
        value = given.get(name)
        values = [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []
        reads = option.reads
        if reads == "side":
            reads = "data" if given.get("model") else "table"
        if reads == "order":
            values = [path for one in values if (path := one.rpartition(":")[0])]
        if reads == "table":
            from attnprobe.table.destination import add_descriptions

            values = [str(one) for one in add_descriptions([Path(one) for one in values])]
        if reads or option.keyword == "model":
            found += [one for one in values if one]
    return found


def set_environment() -> None:
    """Set the variables that libraries read when they are imported."""
    # Threads that spin while they wait for one another stall each other on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def choose_destination(given: Given) -> "Destination":
    """Choose where the table goes, or refuse it."""
    from attnprobe.reports.sink import check_output

    return check_output(given["output"], given["overwrite"], given["format"])


def check_destination(given: Given, reads: Iterable[str]) -> "Destination":
    """Choose where the table goes, or refuse it where the command reads or keeps its state."""
    output, reads = given["output"], list(reads)
    if output is not None and str(output) != _STREAM:
        from attnprobe.table.destination import check_apart, check_apart_from_state

        paths = [Path(name) for name in reads if name != _STREAM]
        check_apart(output, paths, standard_input=_STREAM in reads)
        if given.get("resume") is not None:
            check_apart_from_state(output, given["resume"])
    return choose_destination(given)


def call(command: Command, given: Given, function: Callable[..., Any] | None = None, **changed: Any) -> Any:
    """Call the function of a command, or another one with its keywords, some of them changed."""
    from attnprobe.session.session import record_as

    keywords = {one.keyword: given[name] for name, one in command.on_line.items() if one.python}
    keywords |= {"overwrite": given["overwrite"]} if "overwrite" in command.keywords else {}
    keywords |= changed
    with stopping.working(), make_progress(given) as watcher, record_as(command_line()):
        if "progress" in command.keywords:
            keywords["progress"] = watcher
        if function is None:
            return command.function(**keywords)
        return function(**command.complete(keywords))


def run_command(command: Command, given: Given) -> None:
    prepare(command, given)
    emit(call(command, given), given)


@contextmanager
def run_words(words: Sequence[str]) -> Iterator[None]:
    """Remember the words of the command line that runs inside."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def command_line() -> list[str]:
    """Quote the command for the record."""
    return ["attnprobe", *_words.get()]


def make_progress(given: Given) -> TerminalProgress:
    """Make the progress bar of a terminal, unless the user asked for quiet."""
    quiet = given["quiet"] or not is_first_process()
    return _Stoppable(bar=sys.stderr.isatty() and not (quiet or given["no_progress"]), quiet=quiet)


class _Stoppable(TerminalProgress):
    """Progress that notices a signal which somebody else's code has swallowed."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage, unless the program is to stop; from now on, there may be things to put away."""
        stopping.reraise()
        stopping.gentle = True
        super().stage(name, total)

    def advance(self, steps: int) -> None:
        stopping.reraise()
        super().advance(steps)


def is_first_process() -> bool:
    """Tell whether this process speaks and writes for all that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1 or os.environ.get("RANK", "0") == "0"


def emit(table: "HeadTable", given: Given) -> None:
    """Write the table where the options say; notes go to standard error where the output has none.

    Raises:
        AttnprobeError: When the file can't be written, and the table is then on standard output; or when a
            column that is to be written is not there, and then all are written.
    """
    if not is_first_process():  # which writes for all
        return
    with stopping.working(gentle=True):
        try:
            chosen = table.take(split_names(given["only"]), given["rows"])
        except AttnprobeError as error:  # a wrong name is not to cost a long run
            _write(table, given)
            raise AttnprobeError(f"{str(error).rstrip('.')}; all columns were written.") from error
        _write(chosen, given)


def _write(table: "HeadTable", given: Given) -> None:
    from attnprobe.reports.sink import write_rescued, write_table
    from attnprobe.table.formats import FORMATS

    options = ("output", "format", "precision", "overwrite", "full")
    try:
        written = write_table(table, rows=given["rows"], **{name: given[name] for name in options})
    except AttnprobeError as error:
        where = write_rescued(table, given["output"], given["format"], given["precision"])
        _print_notes(table, given)
        raise AttnprobeError(f"{str(error).rstrip('.')}; the table is {where}.") from error
    for path in written:
        print_written(path, given)
    stopping.outcome = f"{written[0] if written else 'the table'} was written"
    # A table on a terminal shows its notes.
    format = "" if written else choose_destination(given).format
    if written or (format != "table" and not FORMATS[format].holds_notes):
        _print_notes(table, given)


def print_written(path: Path, given: Given) -> None:
    stopping.outcome = f"{path} was written"
    if not given["quiet"]:
        here = Path.cwd()
        name = path.relative_to(here) if path.is_relative_to(here) else path
        print(f"attnprobe: wrote {clean(str(name))}", file=sys.stderr)


def _print_notes(table: "HeadTable", given: Given) -> None:
    if given["quiet"]:
        return
    from attnprobe.reports.findings import state_effects

    for note in [*state_effects(table), *table.notes]:
        print(f"attnprobe: {note}", file=sys.stderr)
