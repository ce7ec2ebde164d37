"""The commands that make pictures and pages of tables: plot, and report of a checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnprobe.commands.roles import RoleGold
from attnprobe.options import (
    TEXT,
    FrequencyOptions,
    GroupOptions,
    LabelsArgument,
    LoadedOptions,
    MetricOptions,
    Saying,
    TaskOptions,
    TextOptions,
    TextsArgument,
    output_option,
)
from attnprobe.registry import Option, command, split_names
from attnprobe.reports.charts.kinds import PictureKind
from attnprobe.reports.theme import ThemeName
from attnprobe.table.formats import READABLE, either

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.reports.picture import Picture
    from attnprobe.reports.report.report import Report
    from attnprobe.session.texts import Texts
    from attnprobe.table.table import HeadTable


class PictureOutput(Saying, total=False):
    """Where a picture goes."""

    output: Annotated[
        Path | None,
        output_option("Write a file: .svg, .png, .pdf or .html.", flags=("--output", "-o"), metavar="PATH"),
    ]
    overwrite: Annotated[bool, output_option("Replace a file that exists.")]


class PageOutput(PictureOutput, total=False):
    """Where a page goes."""

    output: Annotated[
        Path | None,
        output_option(
            "Write this .html file. Default: a page in the browser.", flags=("--output", "-o"), metavar="PATH"
        ),
    ]


class ReportOptions(
    LoadedOptions,
    TextOptions,
    FrequencyOptions,
    GroupOptions,
    RoleGold,
    TaskOptions,
    MetricOptions,
    total=False,
):
    """What the sections of a report are asked with."""


@command(PictureOutput)
def plot(
    tables: Annotated[
        "HeadTable | Path | str | Sequence[HeadTable | Path | str]",
        Option(
            f"Tables that attnprobe wrote: {either(READABLE)}.",
            doc="A table, or the file of one; or several of one kind, for one picture.",
            metavar="TABLE...",
            line=list[Path],
            argument=True,
            reads="table",
        ),
    ],
    *,
    kind: Annotated[
        PictureKind | None, Option("What to draw, where a table can be drawn in more ways than one.")
    ] = None,
    only: Annotated[
        str | Sequence[str] | None,
        Option(
            "Draw these columns. Default: those that the table puts first.",
            metavar="COLUMN,...",
            line=str | None,
        ),
    ] = None,
    rows: Annotated[int | None, Option("Draw the first rows alone.", low=1, metavar="N")] = None,
    theme: Annotated[
        ThemeName | None,
        Option("Colours and sizes. Default: light; paper with --columns.", metavar="NAME"),
    ] = None,
    width: Annotated[
        str | int | None,
        Option("About how wide: 3.05in, 85mm or 605px.", metavar="LENGTH", line=str | None),
    ] = None,
    columns: Annotated[
        int | None,
        Option(
            "For print: fill one column of a page (3.05 inches), or two.",
            metavar="1|2",
            low=1,
            high=2,
        ),
    ] = None,
    title: Annotated[
        str | None,
        Option('What stands above; "" for nothing. Default: the title of the table.'),
    ] = None,
    clusters: Annotated[
        int | None,
        Option(
            "Cut the tree of all pairs of heads into so many parts.",
            doc="Into how many parts a tree of heads is cut, of a table of all pairs of heads; by default "
            "it is cut at 0.7 of the height of its last join.",
            metavar="N",
            low=1,
        ),
    ] = None,
) -> "Picture":
    """What does a table look like: as svg, png, pdf, or a page with tooltips?

    Each table has a picture of its own: a heat map of heads, an atlas of what each head looks at (of a
    census with profile), a map or a matrix of heads by their attention (of distance --all-pairs),
    curves of prune, a scatter of correlate --by head, what heads find (of syntax), roles, lines over
    training (of dynamics). Several tables of one kind make one picture. In a pipe, it is svg.

    Examples:
      attnprobe entropy demo -o entropy.csv
      attnprobe plot entropy.csv -o entropy.pdf --columns 1
      attnprobe plot pairs.csv -o heads.svg --clusters 6

    Returns:
        A picture that shows itself in a notebook; ``picture.save("heads.pdf")`` writes svg, png, pdf or html.

    Raises:
        AttnprobeError: When something is no table, or can't be drawn like this; it says as what else.

    >>> from attnprobe import entropy
    >>> plot(entropy("demo", ["The parcel came late."]))
    Picture(kind='heatmap', title='entropy of heads')
    """
    from attnprobe.reports.charts.draw import draw_picture
    from attnprobe.table.table import HeadTable

    given = [tables] if isinstance(tables, HeadTable | Path | str) else list(tables)
    read = [one if isinstance(one, HeadTable) else HeadTable.read(one) for one in given]
    taken = [table.take(rows=rows) for table in read]
    return draw_picture(taken, kind, split_names(only) or [], theme, width, title, clusters, columns=columns)


@command(PageOutput)
def report(
    model: Annotated[
        "str | Path | PreTrainedModel | None",
        Option(
            "A hub id, a local folder, or demo; none for tables.",
            doc="As for census. None with from_tables.",
            metavar="MODEL",
            line=str | None,
            argument=True,
        ),
    ] = None,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    sections: Annotated[
        str | Sequence[str] | None,
        Option(
            "Measure only these: census, roles, sentences, syntax, coreference, links, groups, importance, "
            "distance, prune, correlate. Default: what the data allow.",
            doc="Measure only these: census, roles, sentences, syntax, coreference, links, groups, "
            "importance, distance, prune, correlate. By default census, roles, sentences, distance; with "
            "treebank also syntax, with coreference coreference, with links links, with by_group groups; "
            "with label_column or objective importance and prune; with out_domain correlate.",
            metavar="NAME,NAME",
            line=str | None,
        ),
    ] = None,
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
            "Make the report from the tables in this folder.",
            flags=("--from",),
            metavar="DIR",
            line=Path | None,
            reads="data",
        ),
    ] = None,
    save_tables: Annotated[
        Path | str | None,
        Option(
            "Write the tables too, each as soon as it is measured.",
            metavar="DIR",
            line=Path | None,
        ),
    ] = None,
    overwrite: Annotated[bool, Option(doc="Replace tables that lie in save_tables.")] = False,
    **options: Unpack[ReportOptions],
) -> "Report":
    """What do the heads of a checkpoint do, on one page for somebody without Python?

    The page holds maps and roles of all heads, a card for each head with its numbers and what it
    looks at in three sentences of the data, heads with similar attention, and with a task importance
    and pruning. It is one file that needs no network, with the tables inside. A table that lies in
    the folder of --save-tables already, of the same model, data and options, is not measured again.

    Examples:
      attnprobe report demo -o report.html
      attnprobe report my-bert -d dev.tsv --save-tables tables -o report.html
      attnprobe report --from tables -o report.html

    Returns:
        A report that shows itself in a notebook, with ``save("report.html")`` for a file and ``tables``.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do. Where a section fails behind
            others, it has their tables as ``error.table``, by name.

    >>> made = report("demo", ["The parcel came late.", "Who rang?"], sections="census,sentences")
    >>> made
    Report('demo': census, profile)
    """
    from attnprobe.commands.call.reporting import report as run
    from attnprobe.session.roles import check_role_name

    check_role_name(options["links_name"], given=options["links"] is not None)
    own: dict[str, Any] = {"sections": sections, "out_domain": out_domain, "overwrite": overwrite}
    own |= {"from_tables": from_tables, "save_tables": save_tables}
    return run(model, texts, labels, **own, **options)
