"""Surveys of texts, of gold links and for roles: what is asked, and the way from keywords to the table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attnprobe.commands.call.alignments import check_pairs
from attnprobe.commands.call.call import (
    Call,
    check_model,
    check_queries,
    load_model,
    open_call,
    parse_layers,
    read_first,
    sees_text,
)
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.texts import Gold, Texts, check_standard_input, open_gold, open_texts
from attnprobe.commands.registry import split_names
from attnprobe.corpus.sources.links import filter_links
from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.corpus.sources.strata import check_strata
from attnprobe.corpus.sources.streams import shorten
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import MIXED, find_role_kind

if TYPE_CHECKING:
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation
    from attnprobe.survey.survey import CorpusRequest, TableRequest

#: What is measured and how it is tabulated, by a function that is called once nothing is left to refuse
#: without torch.
Answer: TypeAlias = "tuple[Sequence[Statistic], Tabulation]"
Question = Callable[[], Answer]
#: Of the random tokens that heads are given twice: as many as the model takes, up to these, in so many
#: sequences.
LENGTH, SEQUENCES = 50, 32


def ask_census(names: Sequence[Any] | None = None, weights: str = "attention") -> Answer:
    """Ask for columns of the census; all of them, and what heads carry, where none are named."""
    from attnprobe.statistics.registry import choose
    from attnprobe.statistics.tabulation import HEADS

    return [*choose(names), *(_choose_lengths(weights) if names is None else [])], HEADS


def ask_everything() -> Answer:
    """Ask for all that has one row a head."""
    from attnprobe.statistics.registry import EVERYTHING, every_statistic_of_heads

    return every_statistic_of_heads(), EVERYTHING


def ask_family(name: str, weights: str = "attention") -> Answer:
    """Ask for one family of the census, and for what heads carry where rows are weighted by it."""
    from attnprobe.statistics.registry import census_statistics
    from attnprobe.statistics.tabulation import HEADS

    return [*census_statistics(name), *_choose_lengths(weights)], HEADS


def ask_control() -> Answer:
    """Ask for positions, in the text and with its tokens shuffled."""
    from attnprobe.statistics.positional import CONTROLLED
    from attnprobe.statistics.registry import census_statistics, select_controls

    return [*census_statistics("positional"), *select_controls("positional")], CONTROLLED


def ask_distance(by: str = "pair", *, all_pairs: bool = False) -> Answer:
    """Ask for the divergence of heads of a layer, or of all heads."""
    from attnprobe.statistics.distance import ALL_PAIRS, BY_HEAD, BY_LAYER, BY_PAIR
    from attnprobe.statistics.registry import select_statistics

    chosen = [one for one in select_statistics("distance") if all_pairs or one is not ALL_PAIRS]
    return chosen, {"pair": BY_PAIR, "head": BY_HEAD, "layer": BY_LAYER}[by]


def ask_mixing(by: str) -> Answer:
    from attnprobe.statistics.mixing import BY_HEAD, BY_LAYER, BY_PAIR
    from attnprobe.statistics.registry import select_statistics

    return select_statistics("mixing"), {"head": BY_HEAD, "layer": BY_LAYER, "pair": BY_PAIR}[by]


def ask_rank(*, maps: bool) -> Answer:
    """Ask for the rank of logits, and of maps too."""
    from attnprobe.statistics.rank import MAP_RANK, RANK
    from attnprobe.statistics.registry import select_statistics

    return [one for one in select_statistics("rank") if maps or one is not MAP_RANK], RANK


def _choose_lengths(weights: str) -> "list[Statistic]":
    """Choose the statistics of what heads carry, where rows are weighted by it."""
    from attnprobe.statistics.registry import select_statistics

    return [] if weights == "attention" else select_statistics("norm")


def survey_texts(
    name: str,
    model: Any,
    texts: Texts,
    question: Question,
    options: Mapping[str, Any],
    *,
    targets: Sequence[str] | None = None,
    shuffled: bool = False,
    as_far_as_possible: bool = False,
) -> HeadTable:
    """Open texts and a model, and survey them for the command of that name.

    ``shuffled`` says that a control shuffles the tokens; ``as_far_as_possible`` leaves out, with a note, what
    the model does not give. Everything else is as for ``census``.
    """
    label_column = options.get("label_column")
    if isinstance(texts, str):  # a list holds texts, not names
        check_standard_input(texts)
    layers = parse_layers(options.get("layers"))
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        sees, order = partial(sees_text, model, call), call.order
        named = {**options, "order": order}
        source = read_first(open_texts(texts, named=named, label_column=label_column, sees=sees))
        check_queries(source, options)
        source = check_groups(source, options)
        if targets is not None:
            source = _add_targets(texts, source, targets)
        if shuffled and source.kind != "text":
            raise AttnprobeError("--control shuffles the tokens of texts; of images and sound, leave it out.")
        statistics, tabulation = question()
        if name == "census" and source.kind == BOTH and options.get("statistics") is None:
            from attnprobe.statistics.registry import select_statistics

            statistics = [*statistics, *select_statistics("modality")]
        from attnprobe.statistics.norm import apply_weights
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call.progress.stage("loading", None)
        corpus = CorpusRequest(
            source.documents,
            apply_weights(statistics, options.get("weights", "attention")),
            call.corpus,
            labelled=targets is not None or label_column is not None,
            order=order,
        )
        facts = {"command": describe_call(name), "dataset": source.described, **describe_groups(options)}
        seed = {"seed": call.corpus.seed} if shuffled else {}
        (found,) = survey_corpora(
            load_model(model, call.tokenizer, call.load, source.kind),
            [TableRequest([corpus], source.name, facts, tabulation, layers, **seed)],
            as_far_as_possible=as_far_as_possible,
            **call.run,
        )
        return found.table


def check_groups(source: OpenSource, options: Mapping[str, Any]) -> OpenSource:
    """Keep the documents that are in a group, where groups are asked for; refuse what can have none."""
    column = options.get("by_group")
    if column is None:
        return source
    if source.kind not in {"text", BOTH}:
        raise AttnprobeError("--by-group is about texts; images and sound have no groups here. Leave it out.")
    return replace(source, documents=check_strata(source.documents, column, source.name))


def describe_groups(options: Mapping[str, Any]) -> dict[str, Any]:
    """Describe which groups were asked for, for the record; nothing where there are none."""
    column = options.get("by_group")
    return {} if column is None else {"asked": {"by_group": column}}


def _add_targets(texts: Any, source: OpenSource, targets: Sequence[str]) -> OpenSource:
    if texts is None or source.kind != "text" or isinstance(texts, str | Path):
        raise AttnprobeError("targets go with a list of texts; of a file, name --label-column.")
    documents = list(source.documents)
    if len(documents) != len(targets):
        raise AttnprobeError(f"There are {len(documents)} texts, but {len(targets)} targets.")
    pairs = zip(documents, targets, strict=True)
    return replace(source, documents=[replace(document, label=target) for document, target in pairs])


def find_links(
    name: str,
    gold: Gold,
    model: Any,
    texts: Texts,
    by: str,
    chosen: dict[str, Any],
    options: Mapping[str, Any],
    *,
    metric: str = "accuracy",
    aligned: Callable[[], OpenSource] | None = None,
) -> HeadTable:
    """Ask heads for the other end of gold links, for the command of that name.

    A row is what ``by`` says: ``"head"``, ``"layer"``, ``"trees"``, ``"trees by layer"``, or a word of the
    command. ``chosen`` holds which links are asked for: ``labels``, ``subtypes``, ``min_links``. ``metric``
    is ``"aer"`` where whole alignments are scored, and ``aligned`` opens pairs with alignments of their own
    in place of ``texts``.
    """
    layers = parse_layers(options.get("layers"))
    best = metric == "accuracy" and by not in {*_TREES, "head", "layer"}
    if best and options.get("by_group") is not None and options.get("weights", "attention") != "attention":
        raise AttnprobeError(
            "--by-group scores the best heads of all groups by attention as it is; leave out --weights, or "
            "give --by head."
        )
    if "labels" in chosen:
        chosen["labels"] = _read_labels(chosen["labels"])
    chosen = {} if by in _TREES else {"metric": metric} if metric == "aer" else chosen
    if by not in {*_TREES, "head"} and metric == "accuracy":
        chosen |= _choose_selection(options)
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        order = call.order
        named = {**options, "order": order}
        opened = open_gold(texts, gold, named) if aligned is None else aligned()
        source = check_groups(read_first(opened), options)
        documents = filter_links(
            source.documents,
            source.name,
            labels=chosen.get("labels"),
            fold=gold is Gold.TREEBANK and not chosen.get("subtypes", True),
            nothing=gold.nothing,
        )
        statistics, tabulation = _ask(gold, by) if metric == "accuracy" else _ask_alignment(by)
        statistics = [*statistics, *_ask_controls(statistics[0], chosen)]
        from attnprobe.corpus.sources.alignments import read_as_pairs
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics.norm import apply_weights
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, source.kind)
        if aligned is not None and not checkpoint.decodes:  # which reads two texts as one
            documents = read_as_pairs(documents)
        documents = check_pairs(documents) if metric == "aer" else documents
        documents, labelled = check_targets(checkpoint, documents)
        statistics = apply_weights(statistics, options.get("weights", "attention"))
        corpus = CorpusRequest(documents, statistics, call.corpus, labelled=labelled, order=order)
        asked = {"asked": chosen | describe_groups(options).get("asked", {})}
        facts = {"command": describe_call(name), "dataset": source.described, **asked}
        (found,) = survey_corpora(
            checkpoint,
            [TableRequest([corpus], source.name, facts, tabulation, layers)],
            **call.run,
        )
        return found.table


def probe_links(
    gold: Gold,
    model: Any,
    texts: Texts,
    by: Any,
    chosen: dict[str, Any],
    how: dict[str, Any],
    options: Mapping[str, Any],
) -> HeadTable:
    """Fit probes of all heads to gold links.

    ``chosen`` is as for ``find_links``, and ``how`` holds options of ``ProbePlan``.
    """
    chosen["labels"] = _read_labels(chosen["labels"])
    if not how["penalty"] > 0:
        raise AttnprobeError(f"--penalty must be above 0, not {how['penalty']:g}.")
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        source = read_first(open_gold(texts, gold, options))
        if source.kind != "text":
            raise AttnprobeError("Gold links lie between words of text; images and sound have none.")
        documents = filter_links(
            source.documents,
            source.name,
            labels=chosen["labels"],
            fold=gold is Gold.TREEBANK and not chosen["subtypes"],
            nothing=gold.nothing,
        )
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics import links
        from attnprobe.survey.probing import ProbePlan, probe_checkpoint

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, source.kind)
        documents, labelled = check_targets(checkpoint, documents)
        if labelled:
            raise AttnprobeError(
                "probe reads what words of one text attend to in it; leave out target, and links into it."
            )
        asking = {
            Gold.TREEBANK: links.ASKING_SYNTAX,
            Gold.COREFERENCE: links.ASKING_COREFERENCE,
            Gold.LINKS: links.ASKING_LINKS,
        }[gold]
        facts = {"command": describe_call("probe"), "dataset": source.described}
        seed = {"seed": call.corpus.seed} if how["control"] else {}
        plan = {**how, "control": how["control"] is not None, "seed": call.corpus.seed}
        return probe_checkpoint(
            checkpoint,
            documents,
            ProbePlan(asking, by, **plan),
            call.corpus,
            dataset=source.name,
            facts={**facts, "asked": {**chosen, **how, **seed}},
            **call.run,
        )


def _read_labels(named: str | Sequence[str] | None) -> list[str] | None:
    found = split_names(named)
    if found == []:
        raise AttnprobeError("No label is named; name some, such as nsubj, or leave the option out for all.")
    return found


#: What ``by`` says of trees.
_TREES = ("trees", "trees by layer")


def _ask(gold: Gold, by: str) -> Answer:
    """Choose what is measured, and how it is tabulated."""
    if by in _TREES:
        from attnprobe.statistics import trees

        if by == "trees":
            return [trees.TREES, trees.DIRECTED], trees.BY_HEAD
        return [trees.LAYER_TREES, trees.LAYER_DIRECTED], trees.BY_LAYER
    from attnprobe.statistics import links

    statistic, by_label, by_head = {
        Gold.TREEBANK: (links.SYNTAX, links.BY_RELATION, links.BY_RELATION_AND_HEAD),
        Gold.COREFERENCE: (links.COREFERENCE, links.BY_MENTION, links.BY_MENTION_AND_HEAD),
        Gold.LINKS: (links.LINKED, links.BY_LABEL, links.BY_LABEL_AND_HEAD),
    }[gold]
    return [statistic], by_head if by == "head" else by_label


def _ask_alignment(by: str) -> Answer:
    """Ask for alignment error rates: of each head, of each layer's mean, or of the best of both."""
    from attnprobe.statistics.alignment import AER, AER_OF_MEAN
    from attnprobe.statistics.alignment_table import BEST_ALIGNMENTS, BY_HEAD, BY_LAYER

    asked: dict[str, Answer] = {"head": ([AER], BY_HEAD), "layer": ([AER_OF_MEAN], BY_LAYER)}
    return asked.get(by, ([AER, AER_OF_MEAN], BEST_ALIGNMENTS))


@dataclass(frozen=True)
class RoleOptions:
    """What ``roles`` alone is asked with: files with gold links that heads can have roles by, and thresholds.

    Attributes:
        links: Files with links of one's own.
        links_name: What the roles by these links are called, before the label.
        label_column: The column of the target texts that a decoder beside an encoder reads.
    """

    treebank: Texts = None
    coreference: Texts = None
    links: Texts = None
    links_name: str | None = None
    thresholds: Mapping[str, float] | str | None = None
    label_column: str | None = None

    def check(self) -> None:
        """Refuse thresholds and a name that can't be."""
        read_thresholds(self.thresholds)
        check_role_name(self.links_name, given=self.links is not None)

    @property
    def files(self) -> dict[Gold, Texts]:
        """The files with gold links that are given."""
        every = {Gold.TREEBANK: self.treebank, Gold.COREFERENCE: self.coreference, Gold.LINKS: self.links}
        return {gold: texts for gold, texts in every.items() if texts is not None}

    @property
    def asked(self) -> dict[str, Any]:
        """What goes on record, and what the table is made by."""
        named = {"links": self.links_name or "links"} if self.links is not None else {}
        return {"thresholds": read_thresholds(self.thresholds), **named}


def _choose_selection(options: Mapping[str, Any]) -> dict[str, Any]:
    """Say how the best heads are chosen and what they are compared with, as far as it goes on record."""
    selection, control = options.get("selection", "folds"), options.get("control")
    chosen = {"selection": selection}
    if selection == "folds":
        chosen["folds"] = options.get("folds", 5)
    return chosen if control is None else {**chosen, "control": control}


def _ask_controls(statistic: "Statistic", chosen: Mapping[str, Any]) -> "Sequence[Statistic]":
    from attnprobe.statistics.links import make_controls

    return make_controls(statistic, chosen["control"]) if "control" in chosen else []


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
    return TableRequest(parts, first.name, facts, ROLES, layers, call.corpus.seed)


def open_sources(texts: Texts, own: RoleOptions, options: Mapping[str, Any]) -> dict[str, OpenSource]:
    """Open the texts and the files with gold links; the census is of the first of them."""
    named = {**options, "name": None}
    found: dict[str, OpenSource] = {}
    if texts is not None:
        source = read_first(open_texts(texts, named=options, label_column=own.label_column))
        if source.kind != "text":
            raise AttnprobeError("Roles are those of heads that read text; for images and sound, see census.")
        found["texts"] = source
    files = own.files if found else {Gold.TREEBANK: None, **own.files}
    for gold, one in files.items():
        found[gold.value] = read_first(open_gold(one, gold, named if found else options))
    return found


def _make_parts(
    checkpoint: "Checkpoint", sources: Mapping[str, OpenSource], call: Call, *, labelled: bool
) -> "list[CorpusRequest]":
    """List the statistics to measure on each corpus, in one pass each, but for the control.

    ``labelled`` says whether the decoder beside an encoder reads the labels of the texts.
    """
    from attnprobe.run.examples import check_targets
    from attnprobe.run.repeated import RepeatedTokens
    from attnprobe.statistics.induction import DUPLICATE, INDUCTION
    from attnprobe.statistics.links import COREFERENCE, LINKED, SYNTAX
    from attnprobe.statistics.parts_of_speech import PART_OF_SPEECH
    from attnprobe.statistics.registry import all_statistics
    from attnprobe.statistics.roles import FAMILY
    from attnprobe.survey.survey import CorpusRequest

    by_gold: dict[Gold | None, list[Statistic]] = {
        Gold.TREEBANK: [SYNTAX, PART_OF_SPEECH],
        Gold.COREFERENCE: [COREFERENCE],
        Gold.LINKS: [LINKED],
    }
    every = all_statistics().values()
    of_text = [one for one in every if one.family is FAMILY and one is not PART_OF_SPEECH]
    parts = []
    for number, (name, source) in enumerate(sources.items()):
        gold = None if name == "texts" else Gold(name)
        documents: Iterable[Any] = source.documents
        targets = labelled and gold is None
        if gold in {Gold.TREEBANK, Gold.LINKS}:
            documents = filter_links(documents, source.name, fold=gold is Gold.TREEBANK, nothing=gold.nothing)
        if gold is Gold.LINKS:
            documents, targets = check_targets(checkpoint, documents)
        statistics = [*by_gold.get(gold, []), *(() if number else of_text)]
        parts.append(CorpusRequest(documents, statistics, call.corpus, name if number else "", targets))
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
        raise AttnprobeError("A name for roles by links goes with a file of links; add --links FILE.")
    if not isinstance(name, str) or name != name.strip() or not name.isprintable():
        raise AttnprobeError(f"Roles by links can't be called {name!r}; give a word, such as atom-map.")
    if not 0 < len(name) <= _LONGEST_NAME or set(_PARTING) & set(name):
        raise AttnprobeError(
            f"Roles by links can't be called {shorten(repr(name))}; give 1 to {_LONGEST_NAME} characters, "
            "none of them a colon or a semicolon."
        )
    if find_role_kind(name) not in {MIXED, "links", "aligns"} or name == MIXED:
        raise AttnprobeError(f"{name} is another role already; give the roles by links another name.")


def read_thresholds(said: "Mapping[str, float] | str | None") -> dict[str, float]:
    """Read from where on a head has a role, or refuse it."""
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
