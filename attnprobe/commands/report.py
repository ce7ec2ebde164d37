"""The command that makes a report of a checkpoint: measures, and puts all into one page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnprobe.commands.output import picture_output
from attnprobe.commands.registry import command
from attnprobe.commands.roles import RoleGold
from attnprobe.option import Option
from attnprobe.options import (
    TEXT,
    Batches,
    Data,
    Frequencies,
    Hub,
    Labels,
    Metric,
    Model,
    Reading,
    Resume,
    Task,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from transformers import PreTrainedModel

    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.sources.document import Label
    from attnprobe.corpus.tokenization import Tokenizer
    from attnprobe.reports.report_page.report import Report

_REPORT = "Report"


@command(
    *(Model, Data, Hub, Reading, Batches, Frequencies, RoleGold, Labels, Task, Metric, Resume),
    picture_output("Write this file, whose name ends in .html. Default: a page in the browser."),
    guesses=("page", "dossier", "summary", "html"),
)
def report(
    model: Annotated[
        "str | Path | PreTrainedModel | None",
        Option(
            "A hub id, a local folder, or [bold]demo[/bold]; none for tables.",
            doc="As for census. None with from_tables.",
            metavar="MODEL",
            line=str | None,
            argument=True,
        ),
    ] = None,
    texts: "Texts" = None,
    labels: "Iterable[Label] | None" = None,
    *,
    sections: Annotated[
        str | Sequence[str] | None,
        Option(
            "Measure only these: census, roles, sentences, importance, distance, prune, correlate. Default: "
            "census, roles, sentences, distance; with --label-column or --objective also importance and "
            "prune; with --out-domain also correlate.",
            metavar="NAME,NAME",
            line=str | None,
            panel=_REPORT,
        ),
    ] = None,
    treebank: "Texts" = None,
    coreference: "Texts" = None,
    thresholds: "Mapping[str, float] | str | None" = None,
    out_domain: Annotated[
        "Texts",
        Option(
            "Other data: do the same heads matter there?",
            metavar="DATA",
            line=str | None,
            reads="data",
            panel=TEXT,
        ),
    ] = None,
    from_tables: Annotated[
        Path | str | None,
        Option(
            "Make the report from the tables in this folder, which any command wrote there. Nothing is "
            "measured.",
            flags=("--from",),
            metavar="DIR",
            line=Path | None,
            reads="data",
            panel=_REPORT,
        ),
    ] = None,
    save_tables: Annotated[
        Path | str | None,
        Option(
            "Write the tables of the report too, as csv, each as soon as it is measured, and the sentences; "
            "--from reads them again.",
            metavar="DIR",
            line=Path | None,
            place=True,
            panel=_REPORT,
        ),
    ] = None,
    overwrite: Annotated[bool, Option(doc="Replace tables that lie in save_tables.")] = False,
    tokenizer: Annotated["Tokenizer | None", Option(doc="The tokenizer of a loaded model.")] = None,
    **options: Any,
) -> "Report":
    """Write one page about a checkpoint: what its heads do, for somebody without Python.

    The page holds what was asked, the outliers, maps and roles of all heads, a card for each head with its
    numbers and what it looks at in three sentences of the data, heads with similar attention, and with a task
    importance and pruning. Choose a head anywhere, and everything shows it. Tables inside can be downloaded.
    It is one file that needs no network and no program but a browser. Census, roles and pairs of heads share
    a pass over the data, and all numbers are those of the single commands. [bold]--resume[/bold] keeps the
    sections that are done; where the page can't be written, the tables are.

    Examples:
      attnprobe report demo -o report.html

      attnprobe report my-bert -d dev.tsv --save-tables tables -o report.html

      attnprobe report gpt2 -d corpus.txt --resume state -o report.html

      attnprobe report --from tables -o report.html

    Notes:
        ``resume`` keeps the tables that are done, and how far the section is that is being measured; beside
        the file lies one for that section.

    Returns:
        A report that shows itself in a notebook, with ``save("report.html")`` for a file and ``tables``.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do. Where a section fails behind
            others, it is an ``UnfinishedError`` that has their tables as ``error.table``, by name.

    >>> made = report("demo", ["The parcel came late.", "Who rang?"], sections="census,sentences")
    >>> made
    Report('demo': census)
    """
    from attnprobe.commands.call.reporting import report as run

    asked = {"sections": sections, "treebank": treebank, "coreference": coreference, "thresholds": thresholds}
    asked |= {"out_domain": out_domain, "from_tables": from_tables, "save_tables": save_tables}
    return run(model, texts, labels, **asked, overwrite=overwrite, tokenizer=tokenizer, **options)
