"""The commands that put tables together: correlate over data or checkpoints, and merge."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.errors import UsageError
from attnprobe.options import DEFAULTS, ScoreOptions, TableOutput
from attnprobe.registry import Option, command
from attnprobe.run.options import record_versions
from attnprobe.session.session import describe_call, make_session, open_call, read_first, read_task
from attnprobe.session.texts import check_standard_input, open_texts
from attnprobe.table.formats import READABLE, extension
from attnprobe.table.reading import identify_table
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.corpus.source import GivenTexts
    from attnprobe.findings.sides import PairedSides, TableSide
    from attnprobe.statistics.statistic import Statistic

#: How many heads that disagree a terminal shows.
_SHOWN = 10


@command(TableOutput)
def correlate(
    in_domain: Annotated[
        "HeadTable | GivenTexts",
        Option(
            "A table from importance or ablate; with MODEL, data.",
            metavar="TABLE|DATA",
            reads="side",
        ),
    ] = None,
    out_domain: Annotated[
        "HeadTable | GivenTexts",
        Option("The same for the other side.", metavar="TABLE|DATA", reads="side"),
    ] = None,
    model: Annotated[
        "str | Path | PreTrainedModel | None",
        Option(
            "A hub id, a folder, or demo, to measure both sides; none for tables.",
            metavar="MODEL",
            argument=True,
        ),
    ] = None,
    *,
    measure: Annotated[
        Literal["gradient", "ig", "lrp", "ablation"] | None,
        Option(
            "With MODEL: gradient, ig, lrp or ablation. Default: gradient.",
            doc="With a model: compare importance (gradient, the default), ig_abs, relevance_abs (lrp), or "
            "the score without the head.",
            flags=("--measure", "--method"),
        ),
    ] = None,
    column: Annotated[
        str | None, Option("With tables: the column to compare. Default: importance or score.")
    ] = None,
    across_models: Annotated[bool, Option("With tables: allow two models of the same shape.")] = False,
    by: Annotated[
        Literal["model", "head"],
        Option("model: one row; head: one row a head, the largest disagreement first."),
    ] = "model",
    **options: Unpack[ScoreOptions],
) -> "HeadTable":
    """Do the same heads matter on other data?

    Give two tables that importance or ablate wrote, or MODEL and two datasets.

    Columns:
      pearson         over heads, with its 95 % interval _low, _high, and p
      pearson_true    estimate without the noise of the examples, with its 95 %
                      interval (jackknife)
      spearman, kendall
                      rank correlations, with p
      reliability_in, reliability_out
                      how well a side would correlate with as many new examples:
                      split halves, Spearman-Brown; it limits pearson
      disagreement    with --by head: difference of the head's ranks

    Examples:
      attnprobe correlate demo --in-domain embedded --out-domain notes.txt
      attnprobe correlate --in-domain in.csv --out-domain out.csv

    >>> texts = ["The parcel came late.", "Who rang?", "She shut the door."]
    >>> table = correlate(texts, texts, "demo")
    >>> round(float(table["pearson"][0]), 6)
    1.0
    """
    if any(not one for one in (in_domain, out_domain) if one is None or isinstance(one, str)):
        raise UsageError("Give the tables or the data of both sides, --in-domain and --out-domain.")
    from attnprobe.findings.correlation import correlate_sides, tabulate_disagreement
    from attnprobe.findings.sides import PairedSides

    if model is None:
        given = [name for name, value in options.items() if value != DEFAULTS[name] and name != "progress"]
        if given or measure is not None:
            name = min(given, default="measure")
            raise UsageError(f"Two tables are compared as they are; give a MODEL too, or leave out {name}.")
        first = _read_side(in_domain, "the first table", column)
        pair = PairedSides.of(first, _read_side(out_domain, "the second table", column), across=across_models)
        record: dict[str, Any] = {"command": describe_call("correlate"), **record_versions()}
        tables: dict[str, Any] = {"in_domain": in_domain, "out_domain": out_domain}
        for name, table in tables.items():
            read = isinstance(table, str | Path)
            record[name] = identify_table(Path(table)) if read else {"name": table.title}
    else:
        if column is not None:
            raise UsageError("--column is for tables; with a MODEL, --measure says what is compared.")
        if across_models:
            raise UsageError("--across-models is for tables.")
        pair, record = measure_domains(model, in_domain, out_domain, measure or "gradient", options)
    if by == "head":
        return tabulate_disagreement(pair, record)
    return replace(correlate_sides(pair, record), below=partial(tabulate_disagreement, pair, record, _SHOWN))


def measure_domains(
    model: Any, in_domain: Any, out_domain: Any, measure: Any, options: Any
) -> "tuple[PairedSides, dict[str, Any]]":
    """Measure every head on the data of two domains; give both sides, and what goes on record."""
    from attnprobe.findings.sides import PairedSides

    if options["metric"] is not None and measure != "ablation":
        of = "a gradient is of the loss" if measure == "gradient" else "relevance is of the logits"
        raise UsageError(f"--metric is for --measure ablation; {of}.")
    if isinstance(in_domain, HeadTable) or isinstance(out_domain, HeadTable):
        raise UsageError("With a model, give texts; two tables are compared without one.")
    check_standard_input(in_domain, out_domain)
    with open_call(options, model) as call:
        task = read_task(options)
        sides = in_domain, out_domain
        inside, outside = (read_first(open_texts(one, options, find_labels=True)) for one in sides)
        from attnprobe.intervention.importance import measure_sides

        sides, record = measure_sides(make_session("correlate", inside, task, call), outside, measure)
    described = {"in_domain": inside.described, "out_domain": outside.described}
    return PairedSides.of(*sides), {"command": describe_call("correlate"), **record, **described}


def _read_side(table: Any, name: str, column: str | None) -> "TableSide":
    """Read a column off a table or its file, or refuse what is no table of heads."""
    from attnprobe.findings.sides import MODEL_IS_MISSING, TableSide

    if isinstance(table, str | Path):
        name = str(table)
        table = HeadTable.read(table) if extension(Path(table)) in READABLE else None
    if not isinstance(table, HeadTable):
        raise UsageError(f"{name} is no table of heads; {MODEL_IS_MISSING}")
    return TableSide.from_table(table, name, column)


@command(TableOutput)
def merge(
    tables: Annotated[
        "Sequence[HeadTable | Path | str]",
        Option(
            "The tables, or the json beside each; no two of the same text.",
            metavar="TABLE...",
            line=list[Path],
            argument=True,
            reads="table",
        ),
    ],
    *,
    statistics: Annotated[
        "Sequence[Statistic]",
        Option(doc="Your own statistics in the tables, unless a package registers them."),
    ] = (),
) -> "HeadTable":
    """What do the tables of separate jobs add up to?

    Each job, such as a task of a Slurm array, reads its part (--part 3/100) or its own file, and
    writes a table with -o; merge adds up the sums in the json files beside them. It merges tables of
    one model with the same options, from census and its parts, rank, induction, mixing, distance,
    syntax, coreference, links and roles. Columns on rare tokens are left out if the jobs differ in
    what is rare. A single table, from any command, is written in another format.

    Examples:
      attnprobe census my-bert -d corpus.txt --part 1/2 -o part1.csv
      attnprobe merge part1.csv part2.csv > whole.csv

    >>> from attnprobe import entropy
    >>> one, two = (entropy("demo", [text]) for text in ("The parcel came late.", "Who rang?"))
    >>> merge([one, two])["n"][0]
    np.int64(2)
    """
    from attnprobe.findings.merge import merge_tables

    return merge_tables(tables, describe_call("merge"), statistics)
