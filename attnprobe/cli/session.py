"""A run of a command: from options to a call of the library, and from its table to where it goes."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from attnprobe.cli.options import ModelOptions, OutputOptions, ResumeOptions
from attnprobe.errors import AttnprobeError
from attnprobe.report.terminal.progress import TerminalProgress

if TYPE_CHECKING:
    from attnprobe.report.destination import Destination
    from attnprobe.table.head_table import HeadTable


Result = TypeVar("Result")


def prepare(model: ModelOptions, output: OutputOptions, stopping: ResumeOptions | None = None) -> None:
    """Refuse a bad destination and settle the environment, before anything slow is imported."""
    settled(output)
    if stopping is not None:
        _check_state(stopping, output)
    if model.offline:
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
    from attnprobe.report.sink import check_output

    return check_output(options.output, options.overwrite, options.format, options.bom)


def _check_state(stopping: ResumeOptions, output: OutputOptions) -> None:
    """Refuse to keep the state where the table goes."""
    if stopping.resume is not None and output.output is not None:
        beside = {output.output.resolve(), output.output.with_suffix(".json").resolve()}
        if stopping.resume.resolve() in beside:
            raise AttnprobeError("--resume and -o name the same file; give the state a name of its own.")


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


def call(function: Callable[..., Result], output: OutputOptions, *arguments: Any, **options: Any) -> Result:
    """Call a function of the library, telling the user how far it is, and put the command on record."""
    from attnprobe.api.commands import recorded_as

    with progress(output) as watcher, recorded_as(command_line()):
        return function(*arguments, progress=watcher, **options)


def command_line() -> list[str]:
    """Give the command for the record, without the access token."""
    words, hide = ["attnprobe"], False
    for word in sys.argv[1:]:
        words.append("***" if hide else "--token=***" if word.startswith("--token=") else word)
        hide = word == "--token"
    return words


@contextmanager
def progress(options: OutputOptions) -> Iterator[TerminalProgress]:
    """Show a progress bar on a terminal, unless the user asked for quiet."""
    quiet = options.quiet or not speaks()
    bar = sys.stderr.isatty() and not (quiet or options.no_progress)
    with TerminalProgress(bar=bar, quiet=quiet) as watcher:
        yield watcher


def speaks() -> bool:
    """Tell whether this process speaks for all that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1 or os.environ.get("RANK", "0") == "0"


def emit(table: "HeadTable", options: OutputOptions) -> None:
    """Write the table where the options say; notes go to standard error where the format has none."""
    from attnprobe.report.sink import write_table

    if not speaks():  # the first process writes it
        return
    destination = settled(options)
    written = write_table(
        table,
        output=options.output,
        format=options.format,
        precision=options.precision,
        overwrite=options.overwrite,
        bom=options.bom,
    )
    if options.quiet:
        return
    for path in written:
        print(f"attnprobe: wrote {path}", file=sys.stderr)
    if destination.path is None and destination.format == "csv":
        for note in table.notes:
            print(f"attnprobe: {note}", file=sys.stderr)
