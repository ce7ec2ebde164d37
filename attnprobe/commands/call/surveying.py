"""Surveys of texts: what is asked, and the way from keywords to the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attnprobe.corpus.groups import keep_grouped
from attnprobe.corpus.media import BOTH
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import UsageError
from attnprobe.session.session import (
    check_model,
    check_queries,
    describe_call,
    load_model,
    open_call,
    parse_layers,
    read_first,
    sees_text,
)
from attnprobe.session.texts import Texts, check_standard_input, open_texts
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation

#: What is measured and how it is tabulated, by a function that is called once nothing is left to refuse
#: without torch.
Answer: TypeAlias = "tuple[Sequence[Statistic], Tabulation]"


Question = Callable[[], Answer]


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
    from attnprobe.statistics.registry import census_statistics, select_statistics

    return [*census_statistics("positional"), *select_statistics("positional", controls=True)], CONTROLLED


def ask_distance(by: str = "pair", *, all_pairs: bool = False) -> Answer:
    """Ask for the divergence of heads of a layer, or of all heads."""
    from attnprobe.statistics.distance import ALL_PAIRS, BY_HEAD, BY_LAYER, BY_PAIR
    from attnprobe.statistics.registry import select_statistics

    chosen = [one for one in select_statistics("distance") if all_pairs or one is not ALL_PAIRS]
    return chosen, {"pair": BY_PAIR, "head": BY_HEAD, "layer": BY_LAYER}[by]


def ask_mixing(by: str) -> Answer:
    from attnprobe.statistics.mixing import BY_HEAD, BY_LAYER, BY_PAIR, CORRELATION, SHUFFLED
    from attnprobe.statistics.registry import select_statistics

    needed = [one for one in select_statistics("mixing") if one.rows == by or one in (CORRELATION, SHUFFLED)]
    return needed, {"head": BY_HEAD, "layer": BY_LAYER, "pair": BY_PAIR}[by]


def ask_rank(*, maps: bool) -> Answer:
    """Ask for the rank of logits, and of maps too."""
    from attnprobe.statistics.rank import MAP_RANK, RANK
    from attnprobe.statistics.registry import select_statistics

    return [one for one in select_statistics("rank") if maps or one is not MAP_RANK], RANK


def _choose_lengths(weights: str) -> "list[Statistic]":
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
    """Open texts and a model, and survey them for the command of that name."""
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
            raise UsageError("--control shuffles the tokens of texts; of images and sound, leave it out.")
        statistics, tabulation = question()
        if name == "census" and source.kind == BOTH and options.get("statistics") is None:
            from attnprobe.statistics.registry import select_statistics

            statistics = [*statistics, *select_statistics("modality")]
        from attnprobe.statistics.statistic import apply_weights
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
        (found,) = survey_corpora(
            load_model(model, call.tokenizer, call.load, source.kind),
            [TableRequest([corpus], source.name, facts, tabulation, layers)],
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
        raise UsageError("--by-group is about texts; images and sound have no groups here. Leave it out.")
    return replace(source, documents=keep_grouped(source.documents, column, source.name))


def describe_groups(options: Mapping[str, Any]) -> dict[str, Any]:
    """Describe which groups were asked for, for the record; nothing where there are none."""
    column = options.get("by_group")
    return {} if column is None else {"asked": {"by_group": column}}


def _add_targets(texts: Any, source: OpenSource, targets: Sequence[str]) -> OpenSource:
    if texts is None or source.kind != "text" or isinstance(texts, str | Path):
        raise UsageError("targets go with a list of texts; of a file, name --label-column.")
    documents = list(source.documents)
    if len(documents) != len(targets):
        raise UsageError(f"There are {len(documents)} texts, but {len(targets)} targets.")
    pairs = zip(documents, targets, strict=True)
    return replace(source, documents=[replace(document, label=target) for document, target in pairs])
