"""Roles of heads: their corpora, their thresholds, and the request for their table."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.links import filter_links
from attnprobe.corpus.source import GivenTexts, OpenSource
from attnprobe.errors import UsageError
from attnprobe.session.session import Call, describe_call, read_first
from attnprobe.session.texts import NO_LINKS, open_gold, open_texts
from attnprobe.table.naming import MIXED, THRESHOLDS, find_role_kind

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.survey.survey import TableRequest

#: Most random tokens that come twice in a sequence, and the number of sequences.
LENGTH, SEQUENCES = 50, 32
#: Names of roles are short, and are parted from labels by colons and from one another by semicolons.
_LONGEST_NAME, _PARTING = 30, ":;"


def list_gold(options: Mapping[str, Any]) -> dict[str, GivenTexts]:
    return {kind: options[kind] for kind in NO_LINKS if options.get(kind) is not None}


def open_sources(texts: GivenTexts, options: Mapping[str, Any]) -> dict[str, OpenSource]:
    """Open the texts, or else a treebank, and all gold links, by name; the census is of the first."""
    sources: dict[str, OpenSource] = {}
    files = list_gold(options)
    if texts is None:
        files = {"treebank": None, **files}
    else:
        source = read_first(open_texts(texts, options))
        if source.kind != "text":
            raise UsageError("Roles are those of heads that read text; for images and sound, see census.")
        sources["texts"] = source
    for kind, file in files.items():
        named = options if texts is None else name_columns(kind, options)
        sources[kind] = read_first(open_gold(file, kind, named))
    return sources


def name_columns(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the options for a file with gold links: without the texts' columns, unless of ``links``."""
    of_texts = ("text_column", "text_pair_column", "document_column", "label_column", "no_header")
    return {**options, "name": None, **({} if kind == "links" else dict.fromkeys(of_texts))}


def request_roles(
    checkpoint: "Checkpoint",
    sources: Mapping[str, OpenSource],
    call: Call,
    options: Mapping[str, Any],
    layers: Sequence[int] | None = None,
) -> "TableRequest":
    """Make the request of the table of roles, of all layers or some, over what ``open_sources`` opened."""
    from attnprobe.run.examples import check_targets
    from attnprobe.run.repeated import RepeatedTokens
    from attnprobe.statistics.induction import DUPLICATE, INDUCTION
    from attnprobe.statistics.links import COREFERENCE, LINKED, SYNTAX
    from attnprobe.statistics.positional import OFFSET, OFFSET_SHUFFLED
    from attnprobe.statistics.registry import select_statistics
    from attnprobe.statistics.role_table import ROLES
    from attnprobe.statistics.roles import FAMILY
    from attnprobe.statistics.special import LIFT
    from attnprobe.survey.survey import CorpusRequest, TableRequest

    of_gold = {"treebank": [SYNTAX], "coreference": [COREFERENCE], "links": [LINKED]}
    corpora: list[CorpusRequest] = []
    for name, source in sources.items():
        documents: Any = source.documents
        labelled = name == "texts" and options.get("label_column") is not None
        if name != "texts":
            fold, nothing = name == "treebank", NO_LINKS[name]
            documents = filter_links(documents, source.name, fold=fold, nothing=nothing)
        if name == "links":
            documents, labelled = check_targets(checkpoint, documents)
        statistics, reading = of_gold.get(name, []), call.corpus
        if not corpora:
            statistics = [*statistics, *select_statistics(FAMILY.name), OFFSET, OFFSET_SHUFFLED, LIFT]
        else:
            reading = replace(reading, part=None)  # jobs share what is beside the texts
        corpora.append(CorpusRequest(documents, statistics, reading, name if corpora else "", labelled))
    repeated = RepeatedTokens.fit(checkpoint, LENGTH, SEQUENCES, call.corpus.seed)
    if repeated is not None:
        corpora.append(CorpusRequest(repeated, [INDUCTION, DUPLICATE], call.corpus, "random tokens"))
    first, *others = sources.items()
    question: dict[str, Any] = {"thresholds": read_thresholds(options.get("thresholds"))}
    if options.get("links") is not None:
        question["links"] = options.get("links_name") or "links"
    facts = {"command": describe_call("roles"), "dataset": first[1].described, "asked": question}
    if others:
        facts["other_datasets"] = {name: source.described for name, source in others}
    return TableRequest(corpora, first[1].name, facts, ROLES, layers)


def check_role_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown thresholds, and a name that roles by --links can't have."""
    read_thresholds(options["thresholds"])
    if (name := options["links_name"]) is None:
        return
    if options["links"] is None:
        raise UsageError("--name says what roles by links are called; add --links FILE.")
    short = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME
    if not short or name != name.strip() or not name.isprintable() or set(_PARTING) & set(name):
        raise UsageError(
            f"Roles by links can't be called {name!r}; give 1 to {_LONGEST_NAME} characters, such as "
            "atom-map, none of them a colon or a semicolon."
        )
    if find_role_kind(name) not in {MIXED, "links", "aligns"} or name == MIXED:
        raise UsageError(f"{name} is another role already; give the roles by links another name.")


def read_thresholds(named: "Mapping[str, float] | str | None") -> dict[str, float]:
    """Read thresholds by name; refuse unknown names, and numbers outside of (0, 1]."""
    thresholds: dict[str, Any] = dict(named) if isinstance(named, Mapping) else {}
    for part in named.split(",") if isinstance(named, str) else ():
        name, _, value = part.partition("=")
        thresholds |= {name.strip(): value} if part.strip() else {}
    for name, value in thresholds.items():
        if name not in THRESHOLDS:
            raise UsageError(f"There is no threshold {name!r}; choose from {', '.join(THRESHOLDS)}.")
        with suppress(TypeError, ValueError):
            thresholds[name] = float(value)
        number = thresholds[name]
        if not isinstance(number, float) or not 0 < number <= 1:
            raise UsageError(f"The threshold {name} must be above 0 and at most 1, not {number!r}.")
    return thresholds
