"""A run of a command: from options to a call of the library, and from its table to where it goes."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attnprobe.cli.options import ModelOptions, OutputOptions, PictureOptions, ResumeOptions
from attnprobe.cli.stopping import stopping
from attnprobe.errors import AttnprobeError
from attnprobe.reports.terminal.progress import TerminalProgress
from attnprobe.table.cleaning import clean

if TYPE_CHECKING:
    from attnprobe.table.destination import Destination
    from attnprobe.table.head_table import HeadTable


Result = TypeVar("Result")

#: The words of the command line that runs.
_words: ContextVar[Sequence[str]] = ContextVar("attnprobe_words", default=())
#: Where tables that are emitted are noted too, for a command that runs another one.
_overheard: ContextVar["dict[str, HeadTable] | None"] = ContextVar("attnprobe_overheard", default=None)
#: What stands for standard input as data, and for standard output as a file.
_STREAM = "-"


class Speaking(Protocol):
    """How much is said."""

    @property
    def quiet(self) -> bool:
        """Whether nothing is said but errors."""
        ...

    @property
    def no_progress(self) -> bool:
        """Whether no progress bar is shown."""
        ...


def prepare(
    model: ModelOptions,
    output: OutputOptions,
    state: ResumeOptions | None = None,
    reads: Iterable[Path | str | None] = (),
) -> None:
    """Refuse a bad destination and settle the environment, before anything slow is imported.

    Args:
        model: Where the checkpoint is, which is read too.
        output: Where the table goes.
        state: Where the state goes.
        reads: What else is read, as the options name it.
    """
    named = model.model if isinstance(model.model, list) else [model.model]
    check_destination(output, state, [*named, *reads])
    settle_environment(offline=model.offline)


def settle(
    model: ModelOptions, output: PictureOptions, formats: Sequence[str], reads: Iterable[Path | str | None]
) -> Path | None:
    """Do the same for a picture, and give its file; None where a browser is to show it.

    Args:
        model: Where the checkpoint is.
        output: Where the picture goes.
        formats: What the name of its file may end in.
        reads: What else is read, where it is a file.
    """
    path = None
    if output.output is not None:
        from attnprobe.table.destination import check_apart, check_free_file

        path = check_free_file(output.output, formats, output.overwrite)
        named = [str(name) for name in (model.model, *reads) if name is not None]
        check_apart(path, [Path(name) for name in named if name != _STREAM])
    settle_environment(offline=model.offline)
    return path


def settle_environment(*, offline: bool) -> None:
    """Settle what is read when libraries are imported."""
    if offline:
        # Read when huggingface_hub and datasets are imported.
        os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    # Threads that spin while they wait for one another stall each other on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    spare_memory()


def spare_memory() -> None:
    """Let glibc keep large blocks for the next batch instead of handing each back to the system.

    Its defaults map and unmap the activations of every batch anew, and zero their pages each time.
    """
    import ctypes

    m_trim_threshold, m_mmap_threshold, size = -1, -3, 1 << 28
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(m_mmap_threshold, size)
    mallopt(m_trim_threshold, size)


def settled(options: OutputOptions) -> "Destination":
    """Settle where the table goes, or refuse it."""
    from attnprobe.reports.sink import check_output

    return check_output(options.output, options.overwrite, options.format, options.bom)


def check_destination(
    output: OutputOptions, state: ResumeOptions | None, reads: Iterable[Path | str | None]
) -> "Destination":
    """Settle where the table goes, or refuse it where the command reads or keeps its state."""
    if output.output is not None and str(output.output) != _STREAM:
        from attnprobe.table.destination import check_apart, check_apart_from_state

        named = [str(read) for read in reads if read is not None]
        paths = [Path(name) for name in named if name and name != _STREAM]
        check_apart(output.output, paths, standard_input=_STREAM in named)
        if state is not None and state.resume is not None:
            check_apart_from_state(output.output, state.resume)
    return settled(output)


def keywords(*groups: Any) -> dict[str, Any]:
    """Give the options of some groups, and of the groups within them, as keywords of the library."""
    found: dict[str, Any] = {}
    for group in groups:
        for field in fields(group):
            value = getattr(group, field.name)
            found |= keywords(value) if is_dataclass(value) else {field.name: value}
    found.pop("model", None)  # the first argument of every function
    found.pop("dataset", None)  # the second
    return found


def call(function: Callable[..., Result], output: Speaking, *arguments: Any, **options: Any) -> Result:
    """Call a function of the library, telling the user how far it is, and put the command on record."""
    from attnprobe.api.commands import recorded_as

    with stopping.working(), progress(output) as watcher, recorded_as(command_line()):
        return function(*arguments, progress=watcher, **options)


@contextmanager
def given(words: Sequence[str]) -> Iterator[None]:
    """Let a command run that was given as these words."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def command_line() -> list[str]:
    """Give the command for the record, without the access token."""
    words, hide = ["attnprobe"], False
    for word in _words.get():
        words.append("***" if hide else "--token=***" if word.startswith("--token=") else word)
        hide = word == "--token"
    return words


@contextmanager
def progress(options: Speaking) -> Iterator[TerminalProgress]:
    """Show a progress bar on a terminal, unless the user asked for quiet."""
    quiet = options.quiet or not speaks()
    bar = sys.stderr.isatty() and not (quiet or options.no_progress)
    with _Stoppable(bar=bar, quiet=quiet) as watcher:
        yield watcher


class _Stoppable(TerminalProgress):
    """Progress that notices a signal which somebody else's code has swallowed."""

    def stage(self, name: str, total: int | None) -> None:
        """Begin a stage, unless the program is to stop; from now on, there may be things to put away."""
        stopping.noticed()
        stopping.gentle = True
        super().stage(name, total)

    def advance(self, steps: int) -> None:
        """Count steps, unless the program is to stop."""
        stopping.noticed()
        super().advance(steps)


def speaks() -> bool:
    """Tell whether this process speaks for all that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1 or os.environ.get("RANK", "0") == "0"


@contextmanager
def overhearing() -> Iterator["dict[str, HeadTable]"]:
    """Give the tables that are made inside, by their names; that of a command with one table has none."""
    found: dict[str, HeadTable] = {}
    token = _overheard.set(found)
    try:
        yield found
    finally:
        _overheard.reset(token)


def made(tables: "Mapping[str, HeadTable]") -> None:
    """Let whoever listens hear of tables, by their names."""
    if (overheard := _overheard.get()) is not None:
        overheard.update(tables)


def emit(table: "HeadTable", options: OutputOptions) -> None:
    """Write the table where the options say; notes go to standard error where the output has none.

    Raises:
        AttnprobeError: When the file can't be written; the table is then on standard output.
    """
    made({"": table})
    if not speaks():  # the first process writes it
        return
    with stopping.working(gentle=True):
        _write(table, options)


def _write(table: "HeadTable", options: OutputOptions) -> None:
    from attnprobe.reports.sink import write_rescued, write_table
    from attnprobe.table.formats import FORMATS

    try:
        written = write_table(
            table,
            output=options.output,
            format=options.format,
            precision=options.precision,
            overwrite=options.overwrite,
            bom=options.bom,
        )
    except AttnprobeError as error:
        where = write_rescued(table, options.output, options.format, options.precision)
        _say_notes(table, options)
        raise AttnprobeError(f"{str(error).rstrip('.')}; the table is {where}.") from error
    stopping.left = f"{written[0] if written else 'the table'} was written"
    if not options.quiet:
        for path in written:
            print(f"attnprobe: wrote {_from_here(path)}", file=sys.stderr)
    # A table on a terminal shows its notes.
    if written or ((format := settled(options).format) != "table" and not FORMATS[format].holds_notes):
        _say_notes(table, options)


def said_as_written(path: Path, options: Speaking) -> None:
    """Say where a picture is."""
    stopping.left = f"{path} was written"
    if not options.quiet:
        print(f"attnprobe: wrote {_from_here(path)}", file=sys.stderr)


def _from_here(path: Path) -> str:
    """Name a file as seen from the current folder, where it lies in it; no name steers the terminal."""
    here = Path.cwd()
    return clean(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _say_notes(table: "HeadTable", options: OutputOptions) -> None:
    """Say on standard error what a file may be read without."""
    if not options.quiet:
        for note in table.notes:
            print(f"attnprobe: {note}", file=sys.stderr)
