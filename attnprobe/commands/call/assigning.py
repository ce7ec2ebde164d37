"""Roles of heads: which corpora and thresholds they are decided by, and the request of their table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.links import filter_links
from attnprobe.corpus.source import OpenSource
from attnprobe.corpus.streams import shorten
from attnprobe.errors import UsageError
from attnprobe.session.session import Call, describe_call, read_first
from attnprobe.session.texts import GoldLinks, Texts, open_gold, open_texts
from attnprobe.table.naming import MIXED, find_role_kind

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.survey.survey import CorpusRequest, TableRequest

#: Of the random tokens that heads are given twice: as many as the model takes, up to these, in so many
#: sequences.
LENGTH, SEQUENCES = 50, 32


@dataclass(frozen=True)
class RoleOptions:
    """What ``roles`` alone is asked with: files with gold links, a name for roles by them, thresholds."""

    treebank: Texts = None
    coreference: Texts = None
    links: Texts = None
    links_name: str | None = None
    thresholds: Mapping[str, float] | str | None = None
    label_column: str | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "RoleOptions":
        return cls(**{one.name: options.get(one.name) for one in fields(cls)})

    def check(self) -> None:
        read_thresholds(self.thresholds)
        check_role_name(self.links_name, given=self.links is not None)

    @property
    def files(self) -> dict[GoldLinks, Texts]:
        every = {
            GoldLinks.TREEBANK: self.treebank,
            GoldLinks.COREFERENCE: self.coreference,
            GoldLinks.LINKS: self.links,
        }
        return {gold: texts for gold, texts in every.items() if texts is not None}

    @property
    def asked(self) -> dict[str, Any]:
        named = {"links": self.links_name or "links"} if self.links is not None else {}
        return {"thresholds": read_thresholds(self.thresholds), **named}


def request_roles(
    checkpoint: "Checkpoint",
    sources: Mapping[str, OpenSource],
    call: Call,
    own: RoleOptions,
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
        "asked": own.asked,
        **({"other_datasets": described} if described else {}),
    }
    parts = _make_parts(checkpoint, sources, call, labelled=own.label_column is not None)
    return TableRequest(parts, first.name, facts, ROLES, layers)


def open_sources(texts: Texts, own: RoleOptions, options: Mapping[str, Any]) -> dict[str, OpenSource]:
    """Open the texts and the files with gold links; the census is of the first of them."""
    found: dict[str, OpenSource] = {}
    if texts is not None:
        source = read_first(open_texts(texts, named=options, label_column=own.label_column))
        if source.kind != "text":
            raise UsageError("Roles are those of heads that read text; for images and sound, see census.")
        found["texts"] = source
    files = own.files if found else {GoldLinks.TREEBANK: None, **own.files}
    for gold, one in files.items():
        named = (
            name_columns(gold, options, own.label_column)
            if found
            else {**options, "label_column": own.label_column}
        )
        found[gold.value] = read_first(open_gold(one, gold, named))
    return found


def name_columns(
    gold: GoldLinks, options: Mapping[str, Any], label_column: str | None = None
) -> dict[str, Any]:
    """Name the columns of a file with gold links beside texts, whose columns are none of a treebank."""
    named = {**options, "name": None, "label_column": label_column}
    of_texts = ("text_column", "text_pair_column", "document_column", "label_column")
    return named if gold is GoldLinks.LINKS else named | dict.fromkeys((*of_texts, "no_header"))


def _make_parts(
    checkpoint: "Checkpoint", sources: Mapping[str, OpenSource], call: Call, *, labelled: bool
) -> "list[CorpusRequest]":
    """List the statistics to measure on each corpus; ``labelled``: decoders read the labels of the texts."""
    from attnprobe.run.examples import check_targets
    from attnprobe.run.repeated import RepeatedTokens
    from attnprobe.statistics.induction import DUPLICATE, INDUCTION
    from attnprobe.statistics.links import COREFERENCE, LINKED, SYNTAX
    from attnprobe.statistics.positional import OFFSET, OFFSET_SHUFFLED
    from attnprobe.statistics.registry import select_statistics
    from attnprobe.statistics.roles import FAMILY
    from attnprobe.statistics.special import LIFT
    from attnprobe.survey.survey import CorpusRequest

    by_gold: dict[GoldLinks | None, list[Statistic]] = {
        GoldLinks.TREEBANK: [SYNTAX],
        GoldLinks.COREFERENCE: [COREFERENCE],
        GoldLinks.LINKS: [LINKED],
    }
    of_text = [*select_statistics(FAMILY.name), OFFSET, OFFSET_SHUFFLED, LIFT]
    parts = []
    for number, (name, source) in enumerate(sources.items()):
        gold = None if name == "texts" else GoldLinks(name)
        documents: Iterable[Any] = source.documents
        targets = labelled and gold is None
        if gold in {GoldLinks.TREEBANK, GoldLinks.LINKS}:
            documents = filter_links(
                documents, source.name, fold=gold is GoldLinks.TREEBANK, nothing=gold.nothing
            )
        if gold is GoldLinks.LINKS:
            documents, targets = check_targets(checkpoint, documents)
        statistics = [*by_gold.get(gold, []), *(() if number else of_text)]
        reading = replace(call.corpus, part=None) if number else call.corpus  # jobs share what is beside
        parts.append(CorpusRequest(documents, statistics, reading, name if number else "", targets))
    repeated = RepeatedTokens.fit(checkpoint, LENGTH, SEQUENCES, call.corpus.seed)
    if repeated is not None:
        parts.append(CorpusRequest(repeated, [INDUCTION, DUPLICATE], call.corpus, "random tokens"))
    return parts


#: Names of roles are short, and are parted from labels by colons and from one another by semicolons.
_LONGEST_NAME, _PARTING = 30, ":;"


def check_role_name(name: str | None, *, given: bool) -> None:
    """Refuse what roles by links of one's own can't be called."""
    if name is None:
        return
    if not given:
        raise UsageError("--name says what roles by links are called; add --links FILE.")
    if not isinstance(name, str) or name != name.strip() or not name.isprintable():
        raise UsageError(f"Roles by links can't be called {name!r}; give a word, such as atom-map.")
    if not 0 < len(name) <= _LONGEST_NAME or set(_PARTING) & set(name):
        raise UsageError(
            f"Roles by links can't be called {shorten(repr(name))}; give 1 to {_LONGEST_NAME} characters, "
            "none of them a colon or a semicolon."
        )
    if find_role_kind(name) not in {MIXED, "links", "aligns"} or name == MIXED:
        raise UsageError(f"{name} is another role already; give the roles by links another name.")


def read_thresholds(said: "Mapping[str, float] | str | None") -> dict[str, float]:
    """Read from where on a head has a role, or refuse it."""
    from attnprobe.statistics.role_table import THRESHOLDS

    if said is None:
        return {}
    if isinstance(said, str):
        pairs = [part.partition("=") for part in said.split(",") if part.strip()]
        said = {name.strip(): _read_number(value) for name, _, value in pairs}
    if not isinstance(said, Mapping):
        raise UsageError(
            f"Thresholds must be numbers by their names, such as {{'broad': 0.7}}, not {said!r}."
        )
    for name, value in said.items():
        if name not in THRESHOLDS:
            raise UsageError(f"There is no threshold {name!r}; choose from {', '.join(THRESHOLDS)}.")
        if not isinstance(value, int | float) or not 0 < value <= 1:
            raise UsageError(f"The threshold {name} must be above 0 and at most 1, not {value!r}.")
    return {name: float(value) for name, value in said.items()}


def _read_number(value: str) -> Any:
    try:
        return float(value)
    except ValueError:
        return value
