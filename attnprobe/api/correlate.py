"""The function that asks whether the same heads matter on other data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from attnprobe.api.calls import Call, begun, called, check_model, loader_of, task_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import DEFAULTS, ScoredKeywords, TextKeywords, given, spelled_out
from attnprobe.api.texts import Texts, opened
from attnprobe.corpus.sources.text import Source
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.asked import Measure
from attnprobe.run.versions import made_with
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.findings.correlation import Side

_STDIN = "-"


@spelled_out
def correlate(
    in_domain: HeadTable | Texts,
    out_domain: HeadTable | Texts,
    model: "str | Path | PreTrainedModel | None" = None,
    *,
    by: Literal["model", "head"] = "model",
    column: str | None = None,
    measure: Measure | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[ScoredKeywords],
) -> HeadTable:
    """Correlate over heads what matters on two datasets.

    Args:
        in_domain: A table of ``importance`` or ``ablate``, or the path of one; with a ``model``, texts.
        out_domain: The same for the other side.
        model: Measure both sides with this model first; None compares two tables.
        by: ``"model"`` for the comparison in one row, ``"head"`` for the heads, furthest apart first.
        column: Of two tables, which one is compared.
        measure: With a model, ``"gradient"`` (the default), ``"lrp"`` or ``"ablation"``; ``method`` is
            another name.
        tokenizer: The tokenizer of a loaded model.
        options: With a model, as for ``ablate``.

    Returns:
        One row, or one a head.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.
    """
    if by not in ("model", "head"):
        raise AttnprobeError(f"by must be model or head, not {by!r}.")
    found = compared(
        in_domain, out_domain, model, column=column, measure=measure, tokenizer=tokenizer, **options
    )
    return found.by_head() if by == "head" else found.in_one_row()


@dataclass(frozen=True)
class Compared:
    """Two sides that were compared, to be tabulated in one way or another.

    Attributes:
        sides: In domain, out of domain.
        facts: What goes into the provenance.
    """

    sides: "tuple[Side, Side]"
    facts: Mapping[str, Any]

    def in_one_row(self) -> HeadTable:
        """Tabulate the comparison in one row."""
        from attnprobe.findings.correlation import comparison_table

        return comparison_table(*self.sides, self.facts)

    def by_head(self, most: int | None = None) -> HeadTable:
        """Tabulate the heads, those that disagree most first; all, or so many."""
        from attnprobe.findings.correlation import disagreement_table

        return disagreement_table(*self.sides, self.facts, most)


def compared(
    in_domain: HeadTable | Texts,
    out_domain: HeadTable | Texts,
    model: "str | Path | PreTrainedModel | None" = None,
    *,
    column: str | None = None,
    measure: Measure | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> Compared:
    """Read or measure both sides; the arguments are those of ``correlate``."""
    facts: dict[str, Any] = {"command": command("correlate")}
    if model is None:
        used = {name for name, value in options.items() if value != DEFAULTS.get(name)} - {"progress"}
        if unused := [*sorted(used), *(["measure"] if measure else [])]:
            raise AttnprobeError(
                f"Two tables are compared as they are; give a MODEL too, or leave out {unused[0]}."
            )
        sides = _side(in_domain, "the first table", column), _side(out_domain, "the second table", column)
        described = {"in_domain": _described(in_domain), "out_domain": _described(out_domain)}
        return Compared(sides, {**facts, **described, **made_with()})
    if column is not None:
        raise AttnprobeError("--column is for tables; with a MODEL, --measure says what is compared.")
    measure = measure or "gradient"
    if options.get("metric") is not None and measure != "ablation":
        of = "a gradient is of the loss" if measure == "gradient" else "relevance is of the logits"
        raise AttnprobeError(f"--metric is for --measure ablation; {of}.")
    with called(options) as call:
        sides, record = _measured(model, (in_domain, out_domain), measure, tokenizer, options, call)
    return Compared(sides, record | facts)


def _measured(
    model: "str | Path | PreTrainedModel",
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
    named = given(options, TextKeywords)
    check_model(model, tokenizer, options)
    inside, outside = (
        begun(opened(domain, named=named, label_column=_own(domain, label_column), find_labels=True))
        for domain in domains
    )
    from attnprobe.intervention.domains import measured_sides

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
    from attnprobe.findings.correlation import Side

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
