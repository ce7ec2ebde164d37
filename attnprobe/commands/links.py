"""The commands that ask what each head finds of gold links: syntax, coreference, links."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.errors import DataError, UsageError
from attnprobe.options import TEXT, GoldArgument, GoldOptions, ModelArgument, TableOutput, TargetOptions
from attnprobe.registry import Option, command, split_names

if TYPE_CHECKING:
    from attnprobe.corpus.document import Document
    from attnprobe.corpus.source import OpenSource
    from attnprobe.table.table import HeadTable

#: Folds of documents, and links of a label, unless somebody picks.
FOLDS, MIN_LINKS = 5, 20
#: What a table of best heads holds.
_BEST_HEADS = """\
  accuracy, n  share of links whose other end the head attends to most; links
  layer, head  what most folds chose; each is scored on the other folds
  baseline     the same for the best simple rule, baseline_rule
  gain         accuracy less baseline
  p            that heads are no better than the rule, by sign flips over
               documents with heads chosen anew; p_adjusted: Holm's
  accuracy_selected
               what choosing and scoring on the same links would claim
  accuracy_far, baseline_far, n_far
               the same of links whose ends are not neighbours
  chosen       share of folds that chose the head
  control, selectivity
               with --control: accuracy for moved links; accuracy less that"""

_file_option = partial(Option, metavar="FILE", panel=TEXT, line=str | None, reads="data")
_hidden_option = partial(Option, panel=TEXT, hidden=True)
MinLinks = Annotated[int, _hidden_option("Leave labels out that have fewer links.", low=1)]
Subtypes = Annotated[bool, _hidden_option("Tell nsubj:pass from nsubj.")]


class LinkOptions(GoldOptions, total=False):
    """How the best heads are chosen, and what they are compared with beside simple rules."""

    folds: Annotated[
        int, Option("Put the documents into so many folds.", low=2, high=32, hidden=True, default=FOLDS)
    ]
    control: Annotated[
        Literal["links"] | None,
        Option(
            "links: compare with the same links, each moved to another word at the same distance.",
            metavar="links",
        ),
    ]


class AlignmentOptions(LinkOptions, TargetOptions, total=False):
    """The same, where links may lead to what a decoder reads."""


@command(TableOutput, best_heads=_BEST_HEADS)
def syntax(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["relation", "head"], Option("A row for each relation with its best head, or for each head.")
    ] = "relation",
    relations: Annotated[
        str | Sequence[str] | None,
        Option("Ask for these relations only.", metavar="NAME,NAME", panel=TEXT, line=str | None),
    ] = None,
    subtypes: Subtypes = False,
    min_links: MinLinks = MIN_LINKS,
    trees: Annotated[
        bool, Option("Score the maximum spanning tree of each head instead (UUAS, UAS).")
    ] = False,
    **options: Unpack[LinkOptions],
) -> "HeadTable":
    """Which heads know subjects, objects and the other dependencies of a treebank?

    The answer of a head is the word that a word attends to most.

    Columns:
    {best_heads}
      position     of a decoder beside an encoder: asked where it predicts a word
                   (output), or where it reads it, one place later (input)
      uuas, uas    with --trees: edges in the head's tree; words with their head

    Examples:
      attnprobe syntax demo
      attnprobe syntax my-bert -d dev.conllu --relations nsubj,obj,det
      attnprobe syntax my-bert -d dev.conllu --control links -o syntax.csv
      attnprobe syntax my-bert -d gum.conllu --by-group genre -o genres.csv

    Returns:
        One row a relation and direction, with its best head; or see ``by`` and ``trees``.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as links that were cut.
    """
    if trees and relations:
        raise UsageError("--trees is about whole trees; leave out --relations.")
    if trees and (options["folds"] != FOLDS or options["control"]):
        raise UsageError("--trees chooses no heads; leave out --folds and --control.")
    question = {"labels": relations, "subtypes": subtypes, "min_links": min_links}
    return _find_links("syntax", "treebank", model, texts, "trees" if trees else by, question, options)


@command(TableOutput, best_heads=_BEST_HEADS)
def coreference(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["mention", "head"],
        Option("A row for each kind of mention with its best head, or for each head."),
    ] = "mention",
    min_links: MinLinks = MIN_LINKS,
    **options: Unpack[LinkOptions],
) -> "HeadTable":
    """Which heads look from a pronoun or a name to what it stands for?

    Of the other mentions, the answer of a head is the one whose head word the mention's head word
    attends to most. Files: CoNLL-U with Entity= (CorefUD), the tsv of GAP.

    Columns:
    {best_heads}

    Examples:
      attnprobe coreference demo
      attnprobe coreference bert-base-uncased -d gap-test.tsv
      attnprobe coreference my-bert -d gum.conllu --by-group genre

    Returns:
        One row a kind of mention, with its best head; or see ``by``.
    """
    question = {"min_links": min_links}
    return _find_links("coreference", "coreference", model, texts, by, question, options)


@command(TableOutput, best_heads=_BEST_HEADS)
def links(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["label", "head"], Option("A row for each label with its best head, or for each head.")
    ] = "label",
    metric: Annotated[
        Literal["accuracy", "aer"], Option("accuracy, or aer: the alignment error rate of a pair of texts.")
    ] = "accuracy",
    alignments: Annotated[
        "str | Path | Sequence[str] | None",
        _file_option(
            "A file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each pair.",
            doc="The path of a file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each "
            "pair of texts; or such a string for each.",
        ),
    ] = None,
    targets: Annotated[
        "str | Path | Sequence[str] | None",
        _file_option(
            "A file of second texts, a line for each line of the dataset.",
            doc="The path of a file of second texts, a line for each line of the dataset; or a list of them.",
        ),
    ] = None,
    one_based: Annotated[
        bool,
        _hidden_option("Words of --alignments count from 1, as those of Europarl do, and not from 0."),
    ] = False,
    weights: Annotated[
        Literal["attention", "norm", "both"],
        _hidden_option("attention, norm (keys weighted by what they carry) or both.", metavar="KIND"),
    ] = "attention",
    labels: Annotated[
        str | Sequence[str] | None,
        Option("Ask for these labels only.", metavar="NAME,NAME", panel=TEXT, line=str | None),
    ] = None,
    min_links: MinLinks = MIN_LINKS,
    **options: Unpack[AlignmentOptions],
) -> "HeadTable":
    """Which heads look from one end of any gold links to the other?

    Atom maps of reactions, alignments of translations, entities, citations: JSON lines such as
    {"text": "the dog", "links": [{"source": [0, 3], "target": [4, 7], "label": "det"}]}, characters
    counted from 0; "text_pair" is a second text, "target" what a decoder reads. --alignments reads
    word alignments as aligners write them (Pharaoh).

    Columns:
    {best_heads}
      aer, precision, recall
                   with --metric aer: alignment error rate of one link for each
                   word (Och and Ney 2003); 0 is best

    Examples:
      attnprobe links demo
      attnprobe links my-molecule-model -d reactions.jsonl --control links
      attnprobe links en-de -d test.en --targets test.de --alignments gold
      attnprobe links en-de -d pairs.txt --alignments gold --metric aer

    Returns:
        One row a label and direction, with its best head; or see ``by``.
    """
    if metric == "aer" and (labels is not None or min_links != MIN_LINKS):
        raise UsageError(
            "--metric aer scores whole alignments, whatever the labels; leave out --labels and --min-links."
        )
    if metric == "aer" and options["control"] is not None:
        raise UsageError("--metric aer has no control; leave out --control.")
    if alignments is None and (targets is not None or one_based):
        raise UsageError("--targets and --one-based go with --alignments; name the file of the alignments.")
    from attnprobe.session.alignments import open_aligned

    question = {"metric": metric} if metric == "aer" else {"labels": labels, "min_links": min_links}
    open_pairs = None
    if alignments is not None:
        open_pairs = partial(open_aligned, texts, alignments, targets, options, one_based=one_based)
    named = {**options, "weights": weights}
    return _find_links("links", "links", model, texts, by, question, named, open_pairs)


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

    ``by`` is what a row is: "head", "trees", or the best head of each label. ``question`` goes on record;
    ``open_pairs`` opens pairs of texts with alignments in place of ``texts``.
    """
    of_heads, aligned = by in {"head", "trees"}, "metric" in question
    if options["layers"] is not None and not of_heads:
        raise UsageError("--layers picks rows of heads; give --by head with it.")
    for option, usual in (("folds", FOLDS), ("control", None)):
        if of_heads and options[option] != usual:
            raise UsageError(f"--{option} is about the best heads; leave out --by head.")
    weighted = options.get("weights", "attention") != "attention"
    if not of_heads and not aligned and weighted and options["by_group"] is not None:
        raise UsageError(
            "--by-group scores the best heads of all groups by attention as it is; leave out --weights, or "
            "give --by head."
        )
    from attnprobe.session.survey import open_survey
    from attnprobe.session.texts import open_gold

    check_labels(question)
    if by == "trees":
        question = {}
    if not of_heads:
        question["folds"] = options["folds"]
    if options["control"] is not None:
        question["control"] = options["control"]
    open_source = open_pairs or partial(open_gold, texts, kind, options)
    with open_survey(name, model, options, lambda _: open_source()) as survey:
        documents = choose_links(survey.source, kind, question)
        from attnprobe.corpus.alignments import read_as_pairs
        from attnprobe.run.examples import check_targets
        from attnprobe.statistics import alignment, links, trees

        statistic, *rows = {
            "treebank": (links.SYNTAX, links.BY_RELATION, links.BY_RELATION_AND_HEAD),
            "coreference": (links.COREFERENCE, links.BY_MENTION, links.BY_MENTION_AND_HEAD),
            "links": (links.LINKED, links.BY_LABEL, links.BY_LABEL_AND_HEAD),
            "aer": (alignment.AER, alignment.BEST_ALIGNMENTS, alignment.BY_HEAD),
            "trees": (trees.TREES, trees.BY_HEAD, trees.BY_HEAD),
        }["trees" if by == "trees" else "aer" if aligned else kind]
        statistics = [statistic, *([links.make_control(statistic)] if "control" in question else [])]
        checkpoint = survey.load()
        if open_pairs is not None and not checkpoint.decodes:  # which reads two texts as one
            documents = read_as_pairs(documents)
        if aligned:
            documents = _check_pairs(documents)
        documents, labelled = check_targets(checkpoint, documents)
        survey.take(documents, labelled=labelled)
        return survey.measure(statistics, rows[of_heads], checkpoint=checkpoint, question=question)


def check_labels(question: dict[str, Any]) -> None:
    """Split the names of labels; an empty list of them is refused."""
    if "labels" in question:
        question["labels"] = split_names(question["labels"])
        if question["labels"] == []:
            raise UsageError("No label is named; name some, such as nsubj, or leave the option out for all.")


def choose_links(source: "OpenSource", kind: str, question: Mapping[str, Any]) -> "Iterator[Document]":
    """Keep the links that are asked for; a label that no link has is refused before the model is loaded."""
    from attnprobe.corpus.document import SEVERAL
    from attnprobe.corpus.links import filter_links
    from attnprobe.session.texts import NO_LINKS

    if source.kind != "text":
        raise UsageError("Gold links lie between words of text; images and sound have none.")
    labels, fold = question.get("labels"), kind == "treebank" and not question.get("subtypes", True)
    documents = filter_links(source.documents, source.name, labels=labels, fold=fold, nothing=NO_LINKS[kind])
    missing, read = set(labels or ()), list[Any]()
    while missing and (document := next(documents, None)) is not None:
        read.append(document)
        links = () if document.annotation is None else document.annotation.links
        missing.difference_update(*(link.label.split(SEVERAL) for link in links))
    return chain(read, documents)


def _check_pairs(documents: "Iterator[Document]") -> "Iterator[Document]":
    """Refuse a text that stands alone, as alignments are between two."""
    for document in documents:
        if document.pair is None and not isinstance(document.label, str):
            raise DataError(
                f"The text {document.text[:60]!r} stands alone, and --metric aer is about alignments of two "
                "texts; give each a target that a decoder reads, or a text_pair."
            )
        yield document
