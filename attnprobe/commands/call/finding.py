"""What heads find of gold links, alone or all together: the way from keywords to the table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from attnprobe.commands.call.alignments import check_pairs
from attnprobe.commands.call.surveying import Answer, check_groups, describe_groups
from attnprobe.corpus.document import SEVERAL, Document
from attnprobe.corpus.links import filter_links
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import UsageError
from attnprobe.registry import split_names
from attnprobe.session.session import (
    check_model,
    describe_call,
    load_model,
    open_call,
    parse_layers,
    read_first,
)
from attnprobe.session.texts import GoldLinks, Texts, open_gold
from attnprobe.table.table import HeadTable


def find_links(
    name: str,
    gold: GoldLinks,
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

    ``by`` is ``"head"``, ``"trees"`` or a word of the command, ``chosen`` which links are asked for.
    ``aligned`` opens pairs with alignments in place of ``texts``.
    """
    layers = parse_layers(options.get("layers"))
    best = metric == "accuracy" and by not in {"trees", "head"}
    if best and options.get("by_group") is not None and options.get("weights", "attention") != "attention":
        raise UsageError(
            "--by-group scores the best heads of all groups by attention as it is; leave out --weights, or "
            "give --by head."
        )
    if "labels" in chosen:
        chosen["labels"] = _read_labels(chosen["labels"])
    chosen = {} if by == "trees" else {"metric": metric} if metric == "aer" else chosen
    if metric == "aer" and by != "head":
        chosen |= {"folds": options.get("folds", 5)}
    if best:
        control = options.get("control")
        chosen |= {"folds": options.get("folds", 5), **({} if control is None else {"control": control})}
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        opened = open_gold(texts, gold, options) if aligned is None else aligned()
        source = check_groups(read_first(opened), options)
        documents = _choose_links(source, gold, chosen)
        statistics, tabulation = _ask(gold, by) if metric == "accuracy" else _ask_alignment(by)
        if "control" in chosen:
            from attnprobe.statistics.links import make_control

            statistics = [*statistics, make_control(statistics[0])]
        from attnprobe.corpus.alignments import read_as_pairs
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics.statistic import apply_weights
        from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, source.kind)
        if aligned is not None and not checkpoint.decodes:  # which reads two texts as one
            documents = read_as_pairs(documents)
        documents = check_pairs(documents) if metric == "aer" else documents
        documents, labelled = check_targets(checkpoint, documents)
        statistics = apply_weights(statistics, options.get("weights", "attention"))
        corpus = CorpusRequest(documents, statistics, call.corpus, labelled=labelled)
        asked = {"asked": chosen | describe_groups(options).get("asked", {})}
        facts = {"command": describe_call(name), "dataset": source.described, **asked}
        (found,) = survey_corpora(
            checkpoint,
            [TableRequest([corpus], source.name, facts, tabulation, layers)],
            **call.run,
        )
        return found.table


def probe_links(
    gold: GoldLinks,
    model: Any,
    texts: Texts,
    by: Any,
    chosen: dict[str, Any],
    how: dict[str, Any],
    options: Mapping[str, Any],
) -> HeadTable:
    """Fit probes of all heads to gold links; ``how`` holds options of ``ProbePlan``."""
    chosen["labels"] = _read_labels(chosen["labels"])
    if not how["penalty"] > 0:
        raise UsageError(f"--penalty must be above 0, not {how['penalty']:g}.")
    with open_call(options, model) as call:
        check_model(model, call.tokenizer, options)
        source = read_first(open_gold(texts, gold, options))
        if source.kind != "text":
            raise UsageError("Gold links lie between words of text; images and sound have none.")
        documents = _choose_links(source, gold, chosen)
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics import links
        from attnprobe.survey.probe import probe_checkpoint

        call.progress.stage("loading", None)
        checkpoint = load_model(model, call.tokenizer, call.load, source.kind)
        documents, labelled = check_targets(checkpoint, documents)
        if labelled:
            raise UsageError(
                "probe reads what words of one text attend to in it; leave out target, and links into it."
            )
        task = {
            GoldLinks.TREEBANK: links.SYNTAX_TASK,
            GoldLinks.COREFERENCE: links.COREFERENCE_TASK,
            GoldLinks.LINKS: links.LINKS_TASK,
        }[gold]
        facts = {"command": describe_call("probe"), "dataset": source.described}
        return probe_checkpoint(
            checkpoint,
            documents,
            task,
            call.corpus,
            by=by,
            **how,
            dataset=source.name,
            facts={**facts, "asked": {**chosen, **how}},
            **call.run,
        )


def _read_labels(named: str | Sequence[str] | None) -> list[str] | None:
    found = split_names(named)
    if found == []:
        raise UsageError("No label is named; name some, such as nsubj, or leave the option out for all.")
    return found


def _choose_links(source: OpenSource, gold: GoldLinks, chosen: Mapping[str, Any]) -> Iterator[Document]:
    """Keep the links that are asked for; a label that no link has is refused before the model is loaded."""
    labels = chosen.get("labels")
    documents = filter_links(
        source.documents,
        source.name,
        labels=labels,
        fold=gold is GoldLinks.TREEBANK and not chosen.get("subtypes", True),
        nothing=gold.nothing,
    )
    missing, read = set(labels or ()), list[Document]()
    while missing and (document := next(documents, None)) is not None:
        read.append(document)
        links = () if document.annotation is None else document.annotation.links
        missing.difference_update(*(link.label.split(SEVERAL) for link in links))
    return chain(read, documents)


def _ask(gold: GoldLinks, by: str) -> Answer:
    if by == "trees":
        from attnprobe.statistics import trees

        return [trees.TREES], trees.BY_HEAD
    from attnprobe.statistics import links

    statistic, by_label, by_head = {
        GoldLinks.TREEBANK: (links.SYNTAX, links.BY_RELATION, links.BY_RELATION_AND_HEAD),
        GoldLinks.COREFERENCE: (links.COREFERENCE, links.BY_MENTION, links.BY_MENTION_AND_HEAD),
        GoldLinks.LINKS: (links.LINKED, links.BY_LABEL, links.BY_LABEL_AND_HEAD),
    }[gold]
    return [statistic], by_head if by == "head" else by_label


def _ask_alignment(by: str) -> Answer:
    from attnprobe.statistics.alignment import AER, BEST_ALIGNMENTS, BY_HEAD

    return [AER], BY_HEAD if by == "head" else BEST_ALIGNMENTS
