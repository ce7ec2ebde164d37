"""The function that asks whether the same heads matter on other data, or in another checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.tokens import Tokenizer
from attnprobe.errors import UsageError
from attnprobe.intervention.request import Measure
from attnprobe.options import DEFAULTS
from attnprobe.run.record import record_versions
from attnprobe.session.session import (
    Call,
    check_model,
    describe_call,
    make_session,
    open_call,
    read_first,
    read_task,
)
from attnprobe.session.texts import Texts, open_texts
from attnprobe.table.formats import READABLE, extension
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.findings.sides import PairedSides, TableSide

_STDIN = "-"


@dataclass(frozen=True)
class ComparedSides:
    """Sides to correlate, which can be tabulated in two ways."""

    pair: "PairedSides"
    facts: Mapping[str, Any]

    def tabulate_pairs(self) -> HeadTable:
        from attnprobe.findings.correlation import correlate_sides

        return correlate_sides(self.pair, self.facts)

    def tabulate_heads(self, most: int | None = None) -> HeadTable:
        """Tabulate the heads, those that disagree most first; all, or so many."""
        from attnprobe.findings.correlation import tabulate_disagreement

        return tabulate_disagreement(self.pair, self.facts, most)


def compare_sides(
    in_domain: HeadTable | Texts,
    out_domain: HeadTable | Texts,
    model: "str | Path | PreTrainedModel | None" = None,
    *,
    column: str | None = None,
    across_models: bool = False,
    measure: Measure | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> ComparedSides:
    """Read or measure all sides; the arguments are those of ``correlate``."""
    from attnprobe.findings.sides import PairedSides

    facts: dict[str, Any] = {"command": describe_call("correlate")}
    domains = in_domain, out_domain
    if any(one is None or (isinstance(one, str) and not one) for one in domains):
        raise UsageError("Give the tables or the data of both sides, --in-domain and --out-domain.")
    if model is None:
        used = {name for name, value in options.items() if value != DEFAULTS.get(name)} - {"progress"}
        if unused := [*sorted(used), *(["measure"] if measure else [])]:
            raise UsageError(
                f"Two tables are compared as they are; give a MODEL too, or leave out {unused[0]}."
            )
        first = _read_side(in_domain, "the first table", column)
        other = _read_side(out_domain, "the second table", column)
        described = {"in_domain": _describe(in_domain), "out_domain": _describe(out_domain)}
        pair = PairedSides.of(first, other, across=across_models)
        return ComparedSides(pair, {**facts, **described, **record_versions()})
    if column is not None:
        raise UsageError("--column is for tables; with a MODEL, --measure says what is compared.")
    if across_models:
        raise UsageError("--across-models is for tables.")
    measure = measure or "gradient"
    if options.get("metric") is not None and measure != "ablation":
        of = "a gradient is of the loss" if measure == "gradient" else "relevance is of the logits"
        raise UsageError(f"--metric is for --measure ablation; {of}.")
    with open_call({**options, "tokenizer": tokenizer}, model) as call:
        sides, record = _measure_domains(model, domains, measure, options, call)
    return ComparedSides(PairedSides.of(*sides), record | facts)


def _measure_domains(
    model: Any,
    domains: tuple[Any, Any],
    measure: Measure,
    options: Mapping[str, Any],
    call: Call,
) -> "tuple[tuple[TableSide, TableSide], dict[str, Any]]":
    if all(isinstance(one, str) and one == _STDIN for one in domains):
        raise UsageError("Standard input can be read once; give a file for one side.")
    if any(isinstance(domain, HeadTable) for domain in domains):
        raise UsageError("With a model, give texts; two tables are compared without one.")
    task = read_task(options, None)
    check_model(model, call.tokenizer, options)
    column = options.get("label_column")
    inside, outside = (
        read_first(open_texts(domain, named=options, label_column=column, find_labels=True))
        for domain in domains
    )
    from attnprobe.intervention.importance import measure_sides

    session = make_session("correlate", model, inside, task, call)
    sides, record = measure_sides(session, outside, measure)
    return sides, record | {"in_domain": inside.described, "out_domain": outside.described}


def _read_side(table: Any, name: str, column: str | None) -> "TableSide":
    from attnprobe.findings.sides import MODEL_IS_MISSING, TableSide

    if isinstance(table, HeadTable):
        return TableSide.from_table(table, name, column)
    if isinstance(table, str | Path) and extension(Path(table)) in READABLE:
        return TableSide.from_table(HeadTable.read(table), str(table), column)
    data = str(table) if isinstance(table, str | Path) else name
    raise UsageError(f"{data} is no table of heads; {MODEL_IS_MISSING}")


def _describe(table: Any) -> dict[str, str]:
    if isinstance(table, HeadTable):
        return {"name": table.title}
    from attnprobe.table.reading import describe_table

    return describe_table(Path(table))
