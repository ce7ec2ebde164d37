"""The commands on gold links: what each head finds of them, and what all heads know of them together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.corpus.alignments import read_as_pairs
from attnprobe.corpus.document import SEVERAL
from attnprobe.corpus.links import filter_links
from attnprobe.errors import DataError, UsageError
from attnprobe.options import (
    GoldArgument,
    GoldOptions,
    LoadedOptions,
    ModelArgument,
    ResumeOptions,
    TableOutput,
    TargetOptions,
    TextOptions,
    text_option,
)
from attnprobe.registry import Option, command, split_names
from attnprobe.session.alignments import open_aligned
from attnprobe.session.session import describe_call
from attnprobe.session.survey import open_survey
from attnprobe.session.texts import NO_LINKS, open_gold

if TYPE_CHECKING:
    from attnprobe.corpus.document import Document
    from attnprobe.corpus.source import OpenSource
    from attnprobe.table.table import HeadTable

#: Folds of documents, and links of a label, unless somebody picks.
FOLDS, MIN_LINKS = 5, 20
#: What a table of best heads holds.
_BEST_HEADS = """\
  accuracy, n  share of links whose other end the head attends to most; links
  layer, head  the head that most folds chose; it is scored on other folds
  baseline     the same for the best simple rule, baseline_rule
  gain         accuracy less baseline
  p            of heads no better than the rule: sign flips over documents,
               heads chosen anew each time; p_adjusted: Holm's
  accuracy_selected
               the best head chosen and scored on the same links
  accuracy_far, baseline_far, n_far
               the same for links whose ends are not neighbours
  chosen       share of folds that chose the head
  control, selectivity
               with --control: accuracy for moved links; accuracy less that"""

_file_option = partial(text_option, metavar="FILE", reads="data")
MinLinks = Annotated[int, text_option("Leave out labels with fewer links.", low=1, hidden=True)]
Subtypes = Annotated[bool, text_option("Keep subtypes apart, such as nsubj:pass.", hidden=True)]
LabelNames = Annotated[str | Sequence[str] | None, text_option("Only these labels.", metavar="NAME,NAME")]


class LinkOptions(GoldOptions, total=False):
    """How the best heads are chosen, and what they are compared with beside simple rules."""

    folds: Annotated[int, Option("Number of folds of documents.", low=2, high=32, hidden=True, default=FOLDS)]
    control: Annotated[
        Literal["links"] | None,
        Option(
            "links: compare with the same links, each moved to another word at the same distance.",
            metavar="links",
        ),
    ]


class AlignmentOptions(LinkOptions, TargetOptions, total=False):
    """The same, where links may lead to what a decoder reads."""


class ProbeOptions(LoadedOptions, TextOptions, ResumeOptions, total=False):
    """A survey of gold links that are kept in memory."""


@command(TableOutput, best_heads=_BEST_HEADS)
def syntax(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["relation", "head"], Option("One row for each relation (its best head), or for each head.")
    ] = "relation",
    relations: LabelNames = None,
    subtypes: Subtypes = False,
    min_links: MinLinks = MIN_LINKS,
    trees: Annotated[bool, Option("Score each head's maximum spanning tree instead (UUAS, UAS).")] = False,
    **options: Unpack[LinkOptions],
) -> "HeadTable":
    """Which heads know subjects, objects and the other dependencies of a treebank?

    A head's answer is the word that the query word attends to most.

    Columns:
    {best_heads}
      position     in an encoder-decoder model: where the decoder predicts a word
                   (output), or reads it, one place later (input)
      uuas, uas    with --trees: share of gold edges, of words with the right head

    Examples:
      attnprobe syntax demo
      attnprobe syntax my-bert -d dev.conllu --relations nsubj,obj,det
      attnprobe syntax my-bert -d dev.conllu --control links -o syntax.csv
    """
    if trees and relations:
        raise UsageError("--trees is about whole trees; leave out --relations.")
    if trees and (options["folds"] != FOLDS or options["control"]):
        raise UsageError("--trees chooses no heads; leave out --folds and --control.")
    question = {"labels": split_names(relations), "subtypes": subtypes, "min_links": min_links}
    if trees:
        return _find_links("syntax", "trees", model, texts, by, {}, options)
    return _find_links("syntax", "treebank", model, texts, by, question, options)


@command(TableOutput, best_heads=_BEST_HEADS)
def coreference(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["mention", "head"],
        Option("One row for each kind of mention (its best head), or for each head."),
    ] = "mention",
    min_links: MinLinks = MIN_LINKS,
    **options: Unpack[LinkOptions],
) -> "HeadTable":
    """Which heads look from a pronoun or a name to what it refers to?

    A mention is represented by its head word. A head's answer is the other mention that it attends to
    most. Files: CoNLL-U with Entity= (CorefUD), or GAP's tsv.

    Columns:
    {best_heads}

    Examples:
      attnprobe coreference demo
      attnprobe coreference bert-base-uncased -d gap-test.tsv
      attnprobe coreference my-bert -d gum.conllu --by-group genre
    """
    question = {"min_links": min_links}
    return _find_links("coreference", "coreference", model, texts, by, question, options)


@command(TableOutput, best_heads=_BEST_HEADS)
def links(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["label", "head"], Option("One row for each label (its best head), or for each head.")
    ] = "label",
    metric: Annotated[
        Literal["accuracy", "aer"], Option("accuracy, or aer: the alignment error rate of two texts.")
    ] = "accuracy",
    alignments: Annotated[
        "str | Path | Sequence[str] | None",
        _file_option(
            "A file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each pair.",
            doc="A file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each pair of texts; "
            "or a list of such strings.",
        ),
    ] = None,
    targets: Annotated[
        "str | Path | Sequence[str] | None",
        _file_option(
            "A file of second texts, a line for each line of the dataset.",
            doc="A file of second texts, a line for each line of the dataset; or a list of them.",
        ),
    ] = None,
    one_based: Annotated[
        bool, text_option("Words in --alignments count from 1, as in Europarl's.", hidden=True)
    ] = False,
    weights: Annotated[
        Literal["attention", "norm", "both"],
        text_option("attention, norm (attention times the norm of value vectors) or both.", hidden=True),
    ] = "attention",
    labels: LabelNames = None,
    min_links: MinLinks = MIN_LINKS,
    **options: Unpack[AlignmentOptions],
) -> "HeadTable":
    """Which heads look from one end of a gold link to the other?

    Atom maps of reactions, alignments of translations, entities, citations: JSON lines such as
    {"text": "the dog", "links": [{"source": [0, 3], "target": [4, 7], "label": "det"}]}, characters
    counted from 0; "text_pair" is a second text, "target" the decoder's text. --alignments reads
    word alignments as aligners write them (Pharaoh).

    Columns:
    {best_heads}
      aer, precision, recall
                   with --metric aer: alignment error rate, one link a word
                   (Och and Ney 2003); 0 is best

    Examples:
      attnprobe links demo
      attnprobe links my-molecule-model -d reactions.jsonl --control links
      attnprobe links en-de -d test.en --targets test.de --alignments gold
      attnprobe links en-de -d pairs.txt --alignments gold --metric aer
    """
    if metric == "aer" and (labels is not None or min_links != MIN_LINKS):
        raise UsageError(
            "--metric aer scores whole alignments, whatever the labels; leave out --labels and --min-links."
        )
    if metric == "aer" and options["control"] is not None:
        raise UsageError("--metric aer has no control; leave out --control.")
    if alignments is None and (targets is not None or one_based):
        raise UsageError("--targets and --one-based go with --alignments; name the file of the alignments.")
    question = {"labels": split_names(labels), "min_links": min_links}
    kind, question = ("aer", {"metric": metric}) if metric == "aer" else ("links", question)
    open_pairs = None
    if alignments is not None:
        open_pairs = partial(open_aligned, texts, alignments, targets, options, one_based=one_based)
    named = {**options, "weights": weights}
    return _find_links("links", kind, model, texts, by, question, named, open_pairs)


@command(TableOutput)
def probe(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    gold: Annotated[
        Literal["treebank", "coreference", "links"],
        text_option("Kind of the file: treebank, coreference or links.", metavar="KIND"),
    ] = "treebank",
    by: Annotated[
        Literal["label", "head"], Option("One row for each label, or for each head with its weight.")
    ] = "label",
    labels: LabelNames = None,
    subtypes: Subtypes = False,
    min_links: MinLinks = MIN_LINKS,
    folds: Annotated[
        int, Option("Number of folds; each is scored by a probe fitted to the others.", low=2, hidden=True)
    ] = FOLDS,
    penalty: Annotated[float, Option("L2 penalty, lambda, in units of links.", above=0, hidden=True)] = 100.0,
    **options: Unpack[ProbeOptions],
) -> "HeadTable":
    """What do all heads know together of dependencies, coreference or other links?

    A probe chooses the word at the other end of each link by a weighted sum of the attention of all
    heads, to the word and from it: two weights a head (Clark et al. 2019). It is scored on documents
    that it was not fitted to.

    Columns:
      accuracy, n    share of links that the probe finds; links
      best_head_accuracy
                     the same for the best head, layer and head
      gain           accuracy less best_head_accuracy
      p, p_adjusted  of a probe no better: sign flips over documents; Holm's
      baseline       the same for the best simple rule, baseline_rule
      chosen         share of folds that chose the best head
      weight, share  with --by head: the head's weight; its share of the total

    Examples:
      attnprobe probe demo
      attnprobe probe bert-base-uncased -d gap-test.tsv --gold coreference
      attnprobe probe bert-base-uncased -d dev.conllu --by head -o weights.csv

    Notes:
        Attention to a word is the sum over its tokens, attention from a word the mean over its tokens. It is
        kept in memory: a byte for each head and pair of words of a sentence.

    References:
        Clark et al. (2019), What does BERT look at?, section 5.
    """
    if subtypes and gold != "treebank":
        raise UsageError("--subtypes is about treebanks; leave it out with another --gold.")
    if by == "head" and folds != FOLDS:
        raise UsageError("--by head gives the weights of one probe; leave out --folds, which scores several.")
    question = {"labels": split_names(labels), "subtypes": subtypes, "min_links": min_links}
    with open_survey("probe", model, texts, options, partial(open_gold, texts, gold, options)) as survey:
        documents = _choose_links(survey.source, gold, question)
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics.rules import COREFERENCE_TASK, LINKS_TASK, SYNTAX_TASK
        from attnprobe.survey.probe import probe_checkpoint

        checkpoint = survey.load()
        documents, labelled = check_targets(checkpoint, documents)
        if labelled:
            raise UsageError(
                "probe reads what words of one text attend to in it; leave out target, and links into it."
            )
        task = {"treebank": SYNTAX_TASK, "coreference": COREFERENCE_TASK, "links": LINKS_TASK}[gold]
        call, fitted = survey.call, {"folds": folds, "penalty": penalty}
        facts = {"command": describe_call("probe"), "dataset": survey.source.described}
        facts["asked"] = question | fitted
        about = {"dataset": survey.source.name, "facts": facts}
        return probe_checkpoint(
            checkpoint, documents, task, call.corpus, by=by, **fitted, **about, **call.run
        )


def _find_links(
    name: str,
    kind: str,
    model: Any,
    texts: Any,
    by: str,
    question: dict[str, Any],
    options: Mapping[str, Any],
    open_pairs: "Callable[[], OpenSource] | None" = None,
) -> "HeadTable":
    """Ask heads for the other end of gold links, for the command of that name.

    ``kind`` is that of the links, "trees" or "aer". ``question`` goes on record, and gets ``folds`` and
    ``control``; ``open_pairs`` opens pairs of texts with alignments in place of ``texts``.
    """
    of_heads = by == "head" or kind == "trees"
    if options["layers"] is not None and not of_heads:
        raise UsageError("--layers picks rows of heads; give --by head with it.")
    for option, usual in (("folds", FOLDS), ("control", None)):
        if of_heads and options[option] != usual:
            raise UsageError(f"--{option} is about the best heads; leave out --by head.")
    weighted = options.get("weights", "attention") != "attention"
    if not of_heads and kind != "aer" and weighted and options["by_group"] is not None:
        raise UsageError(
            "--by-group scores the best heads of all groups by attention as it is; leave out --weights, or "
            "give --by head."
        )
    gold = {"trees": "treebank", "aer": "links"}.get(kind, kind)
    if not of_heads:
        question["folds"] = options["folds"]
    if options["control"] is not None:
        question["control"] = options["control"]
    open_source = open_pairs or partial(open_gold, texts, gold, options)
    with open_survey(name, model, texts, options, open_source) as survey:
        documents = _choose_links(survey.source, gold, question)
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics import alignment, links, trees

        statistic, *rows = {
            "treebank": (links.SYNTAX, links.BY_RELATION, links.BY_RELATION_AND_HEAD),
            "coreference": (links.COREFERENCE, links.BY_MENTION, links.BY_MENTION_AND_HEAD),
            "links": (links.LINKED, links.BY_LABEL, links.BY_LABEL_AND_HEAD),
            "aer": (alignment.AER, alignment.BEST_ALIGNMENTS, alignment.BY_HEAD),
            "trees": (trees.TREES, trees.BY_HEAD, trees.BY_HEAD),
        }[kind]
        statistics = [statistic, *([links.make_control(statistic)] if "control" in question else [])]
        checkpoint = survey.load()
        if open_pairs is not None and not checkpoint.decodes:  # which reads two texts as one
            documents = read_as_pairs(documents)
        if kind == "aer":
            documents = _check_pairs(documents)
        documents, survey.labelled = check_targets(checkpoint, documents)
        survey.source = replace(survey.source, documents=documents)
        return survey.measure(statistics, rows[of_heads], checkpoint=checkpoint, question=question)


def _choose_links(source: "OpenSource", gold: str, question: Mapping[str, Any]) -> "Iterator[Document]":
    """Keep the links that are asked for; a label that no link has is refused before the model is loaded."""
    if source.kind != "text":
        raise UsageError("Gold links lie between words of text; images and sound have none.")
    if question.get("labels") == []:
        raise UsageError("No label is named; name some, such as nsubj, or leave the option out for all.")
    labels, fold = question.get("labels"), gold == "treebank" and not question.get("subtypes", True)
    documents = filter_links(source.documents, source.name, labels=labels, fold=fold, nothing=NO_LINKS[gold])
    missing, read = set(labels or ()), list[Any]()
    while missing and (document := next(documents, None)) is not None:
        read.append(document)
        links = () if document.annotation is None else document.annotation.links
        missing.difference_update(*(link.label.split(SEVERAL) for link in links))
    return chain(read, documents)


def _check_pairs(documents: "Iterator[Document]") -> "Iterator[Document]":
    """Pass documents on, or refuse a text that stands alone, as alignments are between two."""
    for document in documents:
        if document.pair is None and not isinstance(document.label, str):
            raise DataError(
                f"The text {document.text[:60]!r} stands alone, and --metric aer is about alignments of two "
                "texts; give each a target that a decoder reads, or a text_pair."
            )
        yield document
