"""The command that asks whether the same heads matter on other data."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qsl

import typer

from attnprobe.cli.options import (
    TASK,
    DataOptions,
    MetricOptions,
    OptionalModelOptions,
    OutputOptions,
    ReadingOptions,
    TaskOptions,
    TextOptions,
    takes,
)
from attnprobe.cli.session import (
    command_line,
    corpus_options,
    emit,
    loader,
    open_text,
    prepare,
    progress,
    settled,
    task_options,
)
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import OpenSource
    from attnprobe.findings.correlation import Side

_DOMAIN = (
    "A table of importance or ablate; with MODEL, data, which may end in ?split=S&label-column=C and "
    "the like."
)
#: How many heads that disagree a terminal shows.
SHOWN = 10
#: What may stand after the question mark.
_KNOWN = ("split", "dataset-config", "text-column", "text-pair-column", "label-column")


@takes(OptionalModelOptions, ReadingOptions, TaskOptions, MetricOptions, OutputOptions)
def correlate(
    model: OptionalModelOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    output: OutputOptions,
    in_domain: Annotated[str, typer.Option(metavar="TABLE|DATA", help=_DOMAIN)],
    out_domain: Annotated[str, typer.Option(metavar="TABLE|DATA", help="The same for the other side.")],
    measure: Annotated[
        Literal["gradient", "ablation"] | None,
        typer.Option(
            help="With MODEL: gradient importance, or the score without the head. Default: gradient.",
            rich_help_panel=TASK,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="With tables: the column to compare. Default: importance or score."),
    ] = None,
    by: Annotated[
        Literal["model", "head"],
        typer.Option(help="One row for the comparison, or one per head, those that disagree most first."),
    ] = "model",
) -> None:
    """Whether the same heads matter on other data.

    Over heads: [bold]pearson[/bold] with its 95 % interval and p, [bold]spearman[/bold] and
    [bold]kendall[/bold] with p; [bold]reliability_in, reliability_out[/bold]: how well a side's values would
    agree with those of as many other examples (split halves, Spearman-Brown), which limits how high r can be.
    Either two tables that importance or ablate wrote, or MODEL and two datasets. Michel et al. (2019, section
    3.4) correlate the scores of an ablation: --measure ablation.

    Examples:
      attnprobe correlate demo --in-domain embedded --out-domain notes.txt

      attnprobe correlate --in-domain in.csv --out-domain out.csv
    """
    prepare(model, output)
    from attnprobe.findings.correlation import comparison_table, disagreement_table

    destination = settled(output)
    if model.model is None:
        given = (replace(model, token=None), reading, task, metric, measure)
        if given != (OptionalModelOptions(), ReadingOptions(), TaskOptions(), MetricOptions(), None):
            raise AttnprobeError(
                "Two tables are compared as they are; give a MODEL before options of model, text and task."
            )
        sides, facts = _tables(in_domain, out_domain, column)
    else:
        how = measure or "gradient"
        sides, facts = _measured(model, in_domain, out_domain, how, column, reading, task, metric, output)
    if by == "head":
        emit(disagreement_table(*sides, facts), output)
        return
    emit(comparison_table(*sides, facts), output)
    if destination.format == "table":
        print()
        emit(disagreement_table(*sides, facts, most=SHOWN), output)


def _tables(
    in_domain: str, out_domain: str, column: str | None
) -> "tuple[tuple[Side, Side], dict[str, Any]]":
    from attnprobe.findings.correlation import Side
    from attnprobe.survey.survey import made_with
    from attnprobe.table.reading import describe_table, read_table

    inside, outside = (Side.of(read_table(Path(name)), name, column) for name in (in_domain, out_domain))
    facts = {
        "command": command_line(),
        "in_domain": describe_table(Path(in_domain)),
        "out_domain": describe_table(Path(out_domain)),
        **made_with(),
    }
    return (inside, outside), facts


def _measured(
    model: OptionalModelOptions,
    in_domain: str,
    out_domain: str,
    measure: Literal["gradient", "ablation"],
    column: str | None,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    output: OutputOptions,
) -> "tuple[tuple[Side, Side], dict[str, Any]]":
    if column is not None:
        raise AttnprobeError("--column is for tables; with a MODEL, --measure says what is compared.")
    if metric.metric is not None and measure == "gradient":
        raise AttnprobeError("--metric is for --measure ablation; a gradient is of the loss.")
    from attnprobe.intervention.domains import measured_sides

    if in_domain == out_domain == "-":
        raise AttnprobeError("Standard input can be read once; give a file for one side.")
    (inside, named), (outside, also) = (_opened(spec, reading, task) for spec in (in_domain, out_domain))
    facts = {"command": command_line(), "in_domain": inside.described, "out_domain": outside.described}
    with progress(output) as watcher:
        watcher.stage("loading", None)
        sides, record = measured_sides(
            loader(model),
            (inside, outside),
            corpus_options(TextOptions(DataOptions(), reading)),
            replace(task_options(task, metric.metric), labels_named=named or also),
            measure=measure,
            progress=watcher,
        )
    return sides, record | facts


def _opened(spec: str, reading: ReadingOptions, task: TaskOptions) -> "tuple[OpenSource, bool]":
    """Open one side, whose own options may follow a question mark; tell whether its labels are named."""
    path, mark, query = spec.rpartition("?")
    if not mark or Path(spec).exists():
        path, query = spec, ""
    try:
        own = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError:
        raise AttnprobeError(
            f"What follows the question mark in {spec!r} is not NAME=VALUE&NAME=VALUE."
        ) from None
    own = {name.replace("_", "-"): value for name, value in own.items()}
    if unknown := [name for name in own if name not in _KNOWN]:
        raise AttnprobeError(f"{spec!r}: there is no {unknown[0]!r}; use {', '.join(_KNOWN)}.")
    if not path:
        raise AttnprobeError("Give the data of both sides: --in-domain DATA --out-domain DATA.")
    data = DataOptions(path, own.get("split"), own.get("dataset-config"))
    reading = replace(
        reading,
        text_column=own.get("text-column", reading.text_column),
        text_pair_column=own.get("text-pair-column", reading.text_pair_column),
    )
    task = replace(task, label_column=own.get("label-column", task.label_column))
    return open_text(TextOptions(data, reading), task), task.label_column is not None
