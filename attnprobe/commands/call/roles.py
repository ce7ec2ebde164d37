"""What the table of roles takes: thresholds, corpora and statistics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.call import Call, read_first
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.texts import Gold, Texts, open_gold, open_texts
from attnprobe.corpus.sources.links import filter_links
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.survey.survey import CorpusRequest, TableRequest

#: Of the random tokens that heads are given twice: as many as the model takes, up to these, in so many
#: sequences.
LENGTH, SEQUENCES = 50, 32


@dataclass(frozen=True)
class RolesQuestion:
    """From where on a head has a role, and from what random tokens are drawn."""

    thresholds: Mapping[str, float]
    seed: int


def read_question(thresholds: "Mapping[str, float] | str | None", seed: int) -> RolesQuestion:
    """Read thresholds and seed, or refuse them."""
    if seed < 0:
        raise AttnprobeError(f"--seed must be at least 0, not {seed}.")
    return RolesQuestion(_read_thresholds(thresholds), seed)


def request_roles(
    checkpoint: "Checkpoint",
    sources: Mapping[str, OpenSource],
    call: Call,
    question: RolesQuestion,
    layers: Sequence[int] | None = None,
) -> "TableRequest":
    """Make the request of the table of roles, of all layers or some, over what ``open_sources`` opened."""
    from attnprobe.statistics.role_table import ROLES
    from attnprobe.survey.survey import TableRequest

    first = next(iter(sources.values()))
    described = {name: source.described for name, source in sources.items() if source is not first}
    facts = {
        "command": describe_call("roles"),
        "dataset": first.described,
        "asked": {"thresholds": dict(question.thresholds)},
        **({"other_datasets": described} if described else {}),
    }
    parts = _make_parts(checkpoint, sources, call, question.seed)
    return TableRequest(parts, first.name, facts, ROLES, layers, question.seed)


def open_sources(
    texts: Texts, treebank: Texts, coreference: Texts, options: Mapping[str, Any]
) -> dict[str, OpenSource]:
    """Open the texts, the treebank and what has coreference; the census is of the first of them."""
    named = {**options, "name": None}
    found: dict[str, OpenSource] = {}
    if texts is not None:
        source = read_first(open_texts(texts, named=options))
        if source.kind != "text":
            raise AttnprobeError("Roles are those of heads that read text; for images and sound, see census.")
        found["texts"] = source
    if treebank is not None or texts is None:
        found["treebank"] = read_first(open_gold(treebank, Gold.TREEBANK, named if found else options))
    if coreference is not None:
        found["coreference"] = read_first(open_gold(coreference, Gold.COREFERENCE, named))
    return found


def _make_parts(
    checkpoint: "Checkpoint", sources: Mapping[str, OpenSource], call: Call, seed: int
) -> "list[CorpusRequest]":
    """List the statistics to measure on each corpus, in one pass each, but for the control."""
    from attnprobe.run.repeated import RepeatedTokens
    from attnprobe.statistics.induction import DUPLICATE, INDUCTION
    from attnprobe.statistics.links import COREFERENCE, SYNTAX
    from attnprobe.statistics.registry import all_statistics
    from attnprobe.statistics.roles import FAMILY
    from attnprobe.survey.survey import CorpusRequest

    of_text = [statistic for statistic in all_statistics().values() if statistic.family is FAMILY]
    parts = []
    for number, (name, source) in enumerate(sources.items()):
        gold = {"treebank": [SYNTAX], "coreference": [COREFERENCE]}.get(name, [])
        documents: Iterable[Any] = source.documents
        if name == "treebank":
            nothing = Gold.TREEBANK.nothing
            documents = filter_links(documents, source.name, fold=True, nothing=nothing)
        statistics = [*gold, *(() if number else of_text)]
        parts.append(CorpusRequest(documents, statistics, call.corpus, name if number else ""))
    repeated = RepeatedTokens.fit(checkpoint, LENGTH, SEQUENCES, seed)
    if repeated is not None:
        parts.append(CorpusRequest(repeated, [INDUCTION, DUPLICATE], call.corpus, "random tokens"))
    return parts


def _read_thresholds(said: "Mapping[str, float] | str | None") -> dict[str, float]:
    from attnprobe.statistics.roles import THRESHOLDS

    if said is None:
        return {}
    if isinstance(said, str):
        pairs = [part.partition("=") for part in said.split(",") if part.strip()]
        said = {name.strip(): _read_number(value) for name, _, value in pairs}
    if not isinstance(said, Mapping):
        raise AttnprobeError(
            f"Thresholds must be numbers by their names, such as {{'broad': 0.7}}, not {said!r}."
        )
    for name, value in said.items():
        if name not in THRESHOLDS:
            raise AttnprobeError(f"There is no threshold {name!r}; choose from {', '.join(THRESHOLDS)}.")
        if not isinstance(value, int | float) or not 0 < value <= 1:
            raise AttnprobeError(f"The threshold {name} must be above 0 and at most 1, not {value!r}.")
    return {name: float(value) for name, value in said.items()}


def _read_number(value: str) -> Any:
    try:
        return float(value)
    except ValueError:
        return value
