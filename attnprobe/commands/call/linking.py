"""A survey of gold links: what each command asks of them, and the way from its keywords to its table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attnprobe.commands.call.call import check_model, load_model, open_call, parse_layers, read_first
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.texts import Gold, Texts, open_gold
from attnprobe.commands.registry import split_names
from attnprobe.corpus.sources.links import filter_links
from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation


def find_links(
    name: str,
    gold: Gold,
    model: Any,
    texts: Texts,
    by: str,
    chosen: dict[str, Any],
    options: Mapping[str, Any],
) -> HeadTable:
    """Ask heads for the other end of gold links, for the command of that name.

    A row is what ``by`` says: ``"head"``, ``"trees"``, or a word of the command. ``chosen`` holds which links
    are asked for: ``labels``, ``subtypes``, ``min_links``.
    """
    layers = parse_layers(options.get("layers"))
    if "labels" in chosen:
        chosen["labels"] = split_names(chosen["labels"])
        if chosen["labels"] == []:
            raise AttnprobeError(
                "No label is named; name some, such as nsubj, or leave the option out for all."
            )
    chosen = {} if by == "trees" else chosen
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        source = read_first(open_gold(texts, gold, options))
        documents = filter_links(
            source.documents,
            source.name,
            labels=chosen.get("labels"),
            fold=gold is Gold.TREEBANK and not chosen.get("subtypes", True),
            nothing=gold.nothing,
        )
        statistic, tabulation = _ask(gold, by)
        from attnprobe.run.input.examples import check_targets
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, source.kind)
        documents, labelled = check_targets(checkpoint, documents)
        corpus = CorpusRequest(documents, [statistic], call.corpus, labelled=labelled)
        facts = {"command": describe_call(name), "dataset": source.described, "asked": chosen}
        (found,) = survey_corpora(
            checkpoint,
            [TableRequest([corpus], source.name, facts, tabulation, layers)],
            **call.run,
        )
        return found.table


def _ask(gold: Gold, by: str) -> "tuple[Statistic, Tabulation]":
    """Choose what is measured, and how it is tabulated."""
    if by == "trees":
        from attnprobe.statistics.trees import TREE, TREES

        return TREES, TREE
    from attnprobe.statistics import links

    statistic, by_label, by_head = {
        Gold.TREEBANK: (links.SYNTAX, links.BY_RELATION, links.BY_RELATION_AND_HEAD),
        Gold.COREFERENCE: (links.COREFERENCE, links.BY_MENTION, links.BY_MENTION_AND_HEAD),
        Gold.LINKS: (links.LINKED, links.BY_LABEL, links.BY_LABEL_AND_HEAD),
    }[gold]
    return statistic, by_head if by == "head" else by_label
