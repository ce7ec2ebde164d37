"""The function that asks whether the same heads matter on other data, or in another checkpoint."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.call import Call, check_model, make_loader, open_call, read_first, read_task
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.several import list_checkpoints, measure_checkpoints
from attnprobe.commands.call.texts import Texts, open_texts
from attnprobe.commands.intervene import ablate, importance
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import Measure
from attnprobe.options import DEFAULTS
from attnprobe.run.record import record_versions
from attnprobe.run.training import expand_patterns, is_pattern
from attnprobe.table.formats import READABLE, extension
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.findings.pair import Side

_STDIN = "-"
#: What a terminal shows of several comparisons.
_GLANCE = {"model", "dataset", "model_out", "pearson", "pearson_true", "spearman", "kendall"}


@dataclass(frozen=True)
class ComparedSides:
    """Sides to correlate, which can be tabulated in several ways."""

    side: "Side"
    others: "Sequence[Side]"
    facts: Mapping[str, Any]
    across: bool = False
    notes: Sequence[str] = ()

    def tabulate_pairs(self) -> HeadTable:
        from attnprobe.findings.correlation import correlate_sides

        return correlate_sides(self.side, self.others, self.facts, across=self.across, notes=self.notes)

    def tabulate_glance(self) -> HeadTable:
        """Tabulate the comparisons so that they fit a terminal: of several, only some columns."""
        table = self.tabulate_pairs()
        if len(self.others) == 1:
            return table
        columns = [column for column in table.columns if column.name in _GLANCE]
        left = ", ".join(column.name for column in table.columns if column.name not in _GLANCE)
        notes = [*table.notes, f"-o correlation.csv writes the other columns too: {left}."]
        data = {column.name: table.data[column.name] for column in columns}
        return replace(table, columns=columns, data=data, notes=notes)

    def tabulate_heads(self, most: int | None = None) -> HeadTable:
        """Tabulate the heads, those that disagree most first; all, or so many."""
        from attnprobe.findings.correlation import tabulate_disagreement

        more = {"across": self.across, "notes": self.notes}
        return tabulate_disagreement(self.side, self.others, self.facts, most, **more)


def compare_sides(
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
) -> ComparedSides:
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
        if any(one is None or (isinstance(one, str) and not one) for one in domains):
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
        first = _read_side(in_domain, "the first table", column)
        other = _read_side(out_domain, "the second table", column)
        described = {"in_domain": _describe(in_domain), "out_domain": _describe(out_domain)}
        return ComparedSides(first, [other], {**facts, **described, **record_versions()}, across_models)
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
        return _compare_checkpoints(
            [model] if isinstance(model, str) else model, texts, labels, measure, options, facts
        )
    with open_call(options, model) as call:
        sides, record = _measure_domains(model, domains, measure, tokenizer, options, call)
    return ComparedSides(sides[0], sides[1:], record | facts)


def _compare_checkpoints(
    models: Any, texts: Any, labels: Any, measure: Measure, options: dict[str, Any], facts: Mapping[str, Any]
) -> ComparedSides:
    """Measure several checkpoints on the same examples, one after the other."""

    def measure_one(name: str, texts: Any, labels: Any, options: dict[str, Any]) -> HeadTable:
        if measure == "ablation":
            return ablate(name, texts, labels, **options)
        options = {key: value for key, value in options.items() if key != "metric"}
        return importance(name, texts, labels, method=measure, **options)

    names = _name_checkpoints(models)
    found = measure_checkpoints(names, texts, labels, options, measure_one, name=measure)
    from attnprobe.findings.pair import Side

    first, *others = (
        replace(Side.from_table(table, name), model=label)
        for name, label, table in zip(names, found.names, found.tables, strict=True)
    )
    return ComparedSides(first, others, {**found.record, **facts}, True, found.notes)


def _name_checkpoints(models: Any) -> list[str]:
    """Name the checkpoints; a pattern stands for the folders that it matches, except the first checkpoint."""
    first, *rest = list_checkpoints(models)
    names = expand_patterns([first])
    known = {Path(name).resolve() for name in names if Path(name).is_dir()}
    for one in rest:
        names += [
            name for name in expand_patterns([one]) if not (is_pattern(one) and Path(name).resolve() in known)
        ]
    if len(names) < 2:
        raise AttnprobeError(
            f"{names[0]} is the only checkpoint; name another one to compare it with, or the data of both "
            "sides: --in-domain DATA --out-domain DATA."
        )
    return names


def _measure_domains(
    model: Any,
    domains: tuple[Any, Any],
    measure: Measure,
    tokenizer: Tokenizer | None,
    options: Mapping[str, Any],
    call: Call,
) -> "tuple[tuple[Side, Side], dict[str, Any]]":
    if all(isinstance(one, str) and one == _STDIN for one in domains):
        raise AttnprobeError("Standard input can be read once; give a file for one side.")
    if any(isinstance(domain, HeadTable) for domain in domains):
        raise AttnprobeError("With a model, give texts; two tables are compared without one.")
    task = read_task(options, None)
    check_model(model, tokenizer, options)
    column = options.get("label_column")
    inside, outside = (
        read_first(open_texts(domain, named=options, label_column=column, find_labels=True))
        for domain in domains
    )
    from attnprobe.intervention.importance import measure_sides

    call.progress.stage("loading", None)
    sides, record = measure_sides(
        make_loader(model, tokenizer, call.load),
        (inside, outside),
        call.corpus,
        task,
        measure=measure,
        **call.run,
    )
    return sides, record | {"in_domain": inside.described, "out_domain": outside.described}


def _read_side(table: Any, name: str, column: str | None) -> "Side":
    from attnprobe.findings.pair import MODEL_IS_MISSING, Side

    if isinstance(table, HeadTable):
        return Side.from_table(table, name, column)
    if isinstance(table, str | Path) and extension(Path(table)) in READABLE:
        return Side.from_table(HeadTable.read(table), str(table), column)
    data = str(table) if isinstance(table, str | Path) else name
    raise AttnprobeError(f"{data} is no table of heads; {MODEL_IS_MISSING}")


def _describe(table: Any) -> dict[str, str]:
    if isinstance(table, HeadTable):
        return {"name": table.title}
    from attnprobe.table.head_table import describe_table

    return describe_table(Path(table))
