"""The function that asks whether the same heads matter on other data, or in another checkpoint."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.api.across import measured, names_of
from attnprobe.commands.call.call import Call, begun, called, check_model, loader_of, task_of
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.texts import Texts, opened
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import Source
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import Measure
from attnprobe.options import DEFAULTS
from attnprobe.run.training import is_pattern
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.findings.pair import Side

_STDIN = "-"
#: What a terminal shows of several comparisons.
_GLANCE = {"model", "dataset", "model_out", "pearson", "pearson_true", "spearman", "kendall"}


@dataclass(frozen=True)
class Compared:
    """Sides that were compared, to be tabulated in one way or another.

    Attributes:
        side: In domain, or the first checkpoint.
        others: Out of domain, or the other checkpoints.
        facts: What goes into the provenance.
        across: Whether the sides may be about different checkpoints.
        notes: What a reader has to know of how they were measured.
    """

    side: "Side"
    others: "Sequence[Side]"
    facts: Mapping[str, Any]
    across: bool = False
    notes: Sequence[str] = ()

    def in_one_row(self) -> HeadTable:
        """Tabulate each comparison in one row."""
        from attnprobe.findings.correlation import comparison_table

        return comparison_table(self.side, self.others, self.facts, across=self.across, notes=self.notes)

    def at_a_glance(self) -> HeadTable:
        """Tabulate the comparisons so that they fit a terminal: of several, only some columns."""
        table = self.in_one_row()
        if len(self.others) == 1:
            return table
        columns = [column for column in table.columns if column.name in _GLANCE]
        left = ", ".join(column.name for column in table.columns if column.name not in _GLANCE)
        notes = [*table.notes, f"-o correlation.csv writes the other columns too: {left}."]
        data = {column.name: table.data[column.name] for column in columns}
        return replace(table, columns=columns, data=data, notes=notes)

    def by_head(self, most: int | None = None) -> HeadTable:
        """Tabulate the heads, those that disagree most first; all, or so many."""
        from attnprobe.findings.correlation import disagreement_table

        more = {"across": self.across, "notes": self.notes}
        return disagreement_table(self.side, self.others, self.facts, most, **more)


def compared(
    in_domain: HeadTable | Texts,
    out_domain: HeadTable | Texts,
    model: "str | Path | PreTrainedModel | Sequence[str | Path] | None" = None,
    *,
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    column: str | None = None,
    across_models: bool = False,
    measure: Measure | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> Compared:
    """Read or measure all sides; the arguments are those of ``correlate``."""
    facts: dict[str, Any] = {"command": describe_call("correlate")}
    domains = in_domain, out_domain
    if isinstance(model, list | tuple) and len(model) == 1:
        model = model[0]
    several = isinstance(model, list | tuple) or (isinstance(model, str) and is_pattern(model))
    if not several:
        if texts is not None or labels is not None:
            given = "--dataset DATA" if texts is not None else "labels"
            raise AttnprobeError(
                f"{given} is for two or more checkpoints, MODEL MODEL; name another one, or give --in-domain "
                "and --out-domain."
            )
        if any(one is None for one in domains):
            raise AttnprobeError(
                "Give the tables or the data of both sides, --in-domain and --out-domain, or two checkpoints "
                "and --dataset DATA."
            )
    if model is None:
        used = {name for name, value in options.items() if value != DEFAULTS.get(name)} - {"progress"}
        if unused := [*sorted(used), *(["measure"] if measure else [])]:
            raise AttnprobeError(
                f"Two tables are compared as they are; give a MODEL too, or leave out {unused[0]}."
            )
        sides = _side(in_domain, "the first table", column), _side(out_domain, "the second table", column)
        described = {"in_domain": _described(in_domain), "out_domain": _described(out_domain)}
        return Compared(sides[0], sides[1:], {**facts, **described, **made_with()}, across_models)
    if column is not None:
        raise AttnprobeError("--column is for tables; with a MODEL, --measure says what is compared.")
    if across_models:
        raise AttnprobeError("--across-models is for tables; checkpoints that are named are asked for.")
    measure = measure or "gradient"
    if options.get("metric") is not None and measure != "ablation":
        of = "a gradient is of the loss" if measure == "gradient" else "relevance is of the logits"
        raise AttnprobeError(f"--metric is for --measure ablation; {of}.")
    if several:
        if any(one is not None for one in domains):
            raise AttnprobeError(
                "Checkpoints are compared on one dataset, --dataset DATA; --in-domain and --out-domain are "
                "for one MODEL, or for tables."
            )
        names = names_of([model] if isinstance(model, str) else model)
        found = measured(names, texts, labels, measure, options)
        return Compared(found.sides[0], found.sides[1:], {**found.record, **facts}, True, found.notes)
    with called(options, model) as call:
        sides, record = _measured(model, domains, measure, tokenizer, options, call)
    return Compared(sides[0], sides[1:], record | facts)


def _measured(
    model: Any,
    domains: tuple[Any, Any],
    measure: Measure,
    tokenizer: Tokenizer | None,
    options: Mapping[str, Any],
    call: Call,
) -> "tuple[tuple[Side, Side], dict[str, Any]]":
    if all(isinstance(named := _named(domain), str) and named == _STDIN for domain in domains):
        raise AttnprobeError("Standard input can be read once; give a file for one side.")
    if any(isinstance(domain, HeadTable) for domain in domains):
        raise AttnprobeError("With a model, give texts; two tables are compared without one.")
    label_column = options.get("label_column")
    columns = [domain.label_column for domain in domains if isinstance(domain, Source)]
    task = task_of(options, labels_named=label_column is not None or any(columns))
    named = options
    check_model(model, tokenizer, options)
    inside, outside = (
        begun(opened(domain, named=named, label_column=_own(domain, label_column), find_labels=True))
        for domain in domains
    )
    from attnprobe.intervention.importance import measured_sides

    call.progress.stage("loading", None)
    sides, record = measured_sides(
        loader_of(model, tokenizer, call.load),
        (inside, outside),
        call.corpus,
        task,
        measure=measure,
        resume=call.resume,
        workers=call.workers,
        progress=call.progress,
    )
    return sides, record | {"in_domain": inside.described, "out_domain": outside.described}


def _own(domain: Any, column: str | None) -> str | None:
    """A source's own column of labels goes before that of both sides."""
    return (domain.label_column or column) if isinstance(domain, Source) else column


def _named(domain: Any) -> Any:
    return domain.spec if isinstance(domain, Source) else domain


def _side(table: Any, name: str, column: str | None) -> "Side":
    from attnprobe.findings.pair import Side

    if isinstance(table, HeadTable):
        return Side.of_table(table, name, column)
    if isinstance(table, str | Path):
        return Side.of_table(HeadTable.read(table), str(table), column)
    raise AttnprobeError("Without a model, give two tables of heads, or their paths.")


def _described(table: Any) -> dict[str, str]:
    if isinstance(table, HeadTable):
        return {"name": table.title}
    from attnprobe.table.reading import describe_table

    return describe_table(Path(table))
