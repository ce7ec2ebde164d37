"""Alignments of two models, one for each direction of translation, alone and put together."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.call import Call, check_model, load_model, open_call, read_first
from attnprobe.commands.call.record import describe_call
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.links import filter_links
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.survey.survey import Survey


def align_both_directions(
    model: Any,
    reverse: str | Path,
    opened: Callable[[], OpenSource],
    options: Mapping[str, Any],
    nothing: str,
) -> HeadTable:
    """Align pairs of texts with a model, and the other way round with another, and tabulate both together.

    ``opened`` opens texts with targets and gold links, and ``nothing`` says what is wrong where there are no
    links. All pairs are held in memory, with what their words choose.
    """
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        check_model(reverse, None, options)
        source = read_first(opened())
        pairs = [*_number_pairs(filter_links(source.documents, source.name, nothing=nothing))]
        call.progress.stage("loading", None)
        from attnprobe.statistics.alignment_table import tabulate_rows
        from attnprobe.statistics.norm import apply_weights
        from attnprobe.statistics.symmetrisation import GoldPair, ask_choices, symmetrise, turn_documents
        from attnprobe.sums.crossfit import FOLDS

        (asked,) = apply_weights([ask_choices()], options.get("weights", "attention"))
        folds = options.get("folds", FOLDS)
        recorded = {"metric": "aer", "reverse": True, "folds": folds}
        loaded = load_model(model, call.tokenizer, call.load, "text")
        forward = _survey(loaded, pairs, asked, recorded, source, call)
        other = replace(call, resume=_name_second_state(call.resume))
        loaded = load_model(str(reverse), None, call.load, "text")
        backward = _survey(loaded, turn_documents(pairs), asked, recorded, source, other)
        named = [one.labels for one in (forward, backward)]
        if named[0].model == named[1].model:  # folders of one name
            named[1] = replace(named[1], model=str(reverse))
        found = [one.measurement.sums[asked.name] for one in (forward, backward)]
        gold = {number: GoldPair.of(pair) for number, pair in enumerate(pairs)}
        read = {int(number) for one in found for number in one.numbers}
        rows, left = symmetrise(
            {number: pair for number, pair in gold.items() if number in read},
            (found[0], found[1]),
            (named[0], named[1]),
            folds,
        )
        provenance = {**named[0].provenance, "other": _describe_other(named[1].provenance)}
        provenance.pop("measurement")  # it is about texts one by one, and does not add up
        labels = replace(named[0], provenance=provenance)
        by_norm = ", by norm" if asked.weights == "norm" else ""
        notes = []
        if left:
            counted = "1 pair was" if left == 1 else f"{left:,} pairs were"
            notes = [
                f"{counted} left out: not all words have tokens of their own in both, or they are too many."
            ]
        return tabulate_rows(f"links: alignments of two directions{by_norm}", rows, labels, folds, notes)


def _number_pairs(documents: Iterable[Document]) -> Iterator[Document]:
    for number, document in enumerate(documents):
        if not isinstance(document.label, str) or document.pair is not None or document.annotation is None:
            raise AttnprobeError(
                f"The text {document.text[:60]!r} has no target, or no gold links; --reverse is about texts "
                "and targets, which a decoder beside an encoder reads."
            )
        yield replace(document, annotation=replace(document.annotation, number=number))


def _survey(
    checkpoint: "Checkpoint",
    pairs: Iterable[Document],
    statistic: "Statistic",
    asked: Mapping[str, Any],
    source: OpenSource,
    call: Call,
) -> "Survey":
    from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

    if not checkpoint.decodes:
        raise AttnprobeError(
            f"{checkpoint.name} has no decoder beside an encoder, and reads two texts in both directions by "
            "itself; leave out --reverse."
        )
    corpus = CorpusRequest(pairs, [statistic], call.corpus, labelled=True)
    facts = {
        "command": describe_call("links"),
        "dataset": source.described,
        "asked": asked,
    }
    (found,) = survey_corpora(checkpoint, [TableRequest([corpus], source.name, facts)], **call.run)
    return found


def _name_second_state(path: Path | None) -> Path | None:
    return None if path is None else path.with_name(f"{path.name}.reverse")


def _describe_other(record: Mapping[str, Any]) -> dict[str, Any]:
    from attnprobe.run.record import record_versions

    left = {*record_versions(), "measurement", "command", "dataset", "asked"}
    return {name: part for name, part in record.items() if name not in left}
