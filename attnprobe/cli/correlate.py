"""The command that asks whether the same heads matter on other data, or in another checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qsl

import typer

from attnprobe.cli.options import (
    TASK,
    AnyModelsOptions,
    DataOptions,
    MetricOptions,
    OutputOptions,
    ReadingOptions,
    ResumeOptions,
    TaskOptions,
    takes,
)
from attnprobe.cli.session import call, emit, keywords, prepare, settled
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source

_DOMAIN = (
    "A table that importance or ablate wrote. With MODEL: data, which may end in options of its own, as in "
    "?split=S&label-column=C."
)
#: How many heads that disagree a terminal shows.
SHOWN = 10
#: What may stand after the question mark, and what a ``Source`` calls it.
_KNOWN = {
    "split": "split",
    "dataset-config": "config",
    "text-column": "text_column",
    "text-pair-column": "pair_column",
    "label-column": "label_column",
    "document-column": "document_column",
}


@takes(
    AnyModelsOptions, DataOptions, ReadingOptions, TaskOptions, MetricOptions, ResumeOptions, OutputOptions
)
def correlate(
    model: AnyModelsOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    stopping: ResumeOptions,
    output: OutputOptions,
    in_domain: Annotated[str | None, typer.Option(metavar="TABLE|DATA", help=_DOMAIN)] = None,
    out_domain: Annotated[
        str | None, typer.Option(metavar="TABLE|DATA", help="The same for the other side.")
    ] = None,
    measure: Annotated[
        Literal["gradient", "lrp", "ablation"] | None,
        typer.Option(
            "--measure",
            "--method",
            help="With MODEL: compare gradient importance, relevance_abs (lrp), or the score without the "
            "head. Default: gradient.",
            rich_help_panel=TASK,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="With tables: compare this column. Default: importance, relevance_abs or score."),
    ] = None,
    across_models: Annotated[
        bool,
        typer.Option(
            "--across-models",
            help="With tables: compare them although they are about different models of the same shape.",
        ),
    ] = False,
    by: Annotated[
        Literal["model", "head"],
        typer.Option(
            help="Give one row for the comparison, or one per head, beginning with those that disagree most."
        ),
    ] = "model",
) -> None:
    """Ask whether the same heads matter on other data, or in another checkpoint.

    Over heads: [bold]pearson[/bold] with its 95 % interval (pearson_low, pearson_high) and p;
    [bold]pearson_true[/bold], what it would be without the noise of the examples, with a 95 % interval by
    bootstrap (pearson_true_low, pearson_true_high); [bold]spearman[/bold] and [bold]kendall[/bold] with p;
    [bold]reliability_in, reliability_out[/bold]: how well a side's values would agree with those of as many
    other examples (split halves, Spearman-Brown), which limits how high r can be.

    Give two tables that importance or ablate wrote; or MODEL and two datasets; or two or more checkpoints of
    the same shape and one dataset, -d: the first checkpoint is compared with each of the others, which
    [bold]model_out[/bold] names, on the same examples. Michel et al. (2019, section 3.4) correlate the scores
    of an ablation: --measure ablation.

    Examples:
      attnprobe correlate demo --in-domain embedded --out-domain notes.txt

      attnprobe correlate bert --in-domain a.tsv --out-domain b.tsv --measure lrp

      attnprobe correlate --in-domain in.csv --out-domain out.csv

      attnprobe correlate my-classifier my-other-classifier -d reviews.tsv

      attnprobe correlate run/step-900 'run/step-*' -d dev.tsv --resume state

      attnprobe correlate --in-domain a.csv --out-domain b.csv --across-models
    """
    from attnprobe.table.destination import add_descriptions

    domains: tuple[Any, Any] = in_domain, out_domain
    paths = [Path(path_and_query(side)[0]) for side in domains if side is not None]
    prepare(model, output, stopping, [*(paths if model.model else add_descriptions(paths)), data.dataset])
    from attnprobe.api import correlate as api

    destination = settled(output)
    options: dict[str, Any] = {"measure": measure, "column": column, "across_models": across_models}
    if not model.model:
        plain = (
            AnyModelsOptions(),
            DataOptions(),
            ReadingOptions(),
            TaskOptions(),
            MetricOptions(),
            ResumeOptions(),
            None,
        )
        if (replace(model, token=None, model=None), data, reading, task, metric, stopping, measure) != plain:
            raise AttnprobeError(
                "Two tables are compared as they are; give a MODEL before options of model, text and task."
            )
    else:
        if len(model.model) == 1 and data.dataset is None:
            domains = tuple(None if side is None else _source(side) for side in domains)  # type: ignore[assignment]
        options |= keywords(model, data, reading, task, metric, stopping) | {"texts": data.dataset}
    compared = call(api.compared, output, *domains, model.model or None, **options)
    if by == "head":
        emit(compared.by_head(), output)
        return
    if destination.format != "table":
        emit(compared.in_one_row(), output)
        return
    emit(compared.at_a_glance(), output)
    if len(compared.others) == 1:
        print()
        emit(replace(compared.by_head(SHOWN), notes=[]), output)  # which stand below the first table


def _source(spec: str) -> "Source":
    """Read one side, whose own options may follow a question mark."""
    from attnprobe.corpus.sources.text import Source

    path, query = path_and_query(spec)
    try:
        own = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError:
        raise AttnprobeError(
            f"What follows the question mark in {spec!r} is not NAME=VALUE&NAME=VALUE."
        ) from None
    own = {name.replace("_", "-"): value for name, value in own.items()}
    if "target-column" in own:  # as the option has two names
        own.setdefault("label-column", own.pop("target-column"))
    if unknown := [name for name in own if name not in _KNOWN]:
        raise AttnprobeError(f"{spec!r}: there is no {unknown[0]!r}; use {', '.join(_KNOWN)}.")
    if not path:
        raise AttnprobeError("Give the data of both sides: --in-domain DATA --out-domain DATA.")
    columns: dict[str, Any] = {field: own.get(name) for name, field in _KNOWN.items()}
    return Source(path, **columns)


def path_and_query(spec: str) -> tuple[str, str]:
    """Cut the options of its own off a side; a question mark may also be part of a file's name."""
    path, mark, query = spec.rpartition("?")
    return (spec, "") if not mark or Path(spec).exists() else (path, query)
