"""The commands that ask what heads find: syntax, coreference, links."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.errors import UsageError
from attnprobe.options import TEXT, GoldArgument, GoldOptions, ModelArgument, TableOutput, TargetOptions
from attnprobe.registry import Option, command

if TYPE_CHECKING:
    from pathlib import Path

    from attnprobe.table.table import HeadTable


#: Folds of documents, and links of a label, unless somebody picks.
FOLDS, MIN_LINKS = 5, 20


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


_MinLinks = Annotated[int, Option("Leave labels out that have fewer links.", low=1, panel=TEXT, hidden=True)]


def _check_rows(options: LinkOptions, *, of_heads: bool) -> None:
    """Refuse options of rows of heads where each row is a label's best head, and the other way round."""
    if options["layers"] is not None and not of_heads:
        raise UsageError("--layers picks rows of heads; give --by head with it.")
    for name, usual in (("folds", FOLDS), ("control", None)):
        if of_heads and options[name] != usual:  # type: ignore[literal-required]
            raise UsageError(f"--{name} is about the best heads; leave out --by head.")


@command(TableOutput)
def syntax(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["relation", "head"],
        Option("A row for each relation with its best head, or for each head."),
    ] = "relation",
    relations: Annotated[
        str | Sequence[str] | None,
        Option(
            "Ask for these relations only.",
            metavar="NAME,NAME",
            panel=TEXT,
            line=str | None,
        ),
    ] = None,
    subtypes: Annotated[bool, Option("Tell nsubj:pass from nsubj.", panel=TEXT, hidden=True)] = False,
    min_links: _MinLinks = MIN_LINKS,
    trees: Annotated[
        bool,
        Option("Score the maximum spanning tree of each head instead (UUAS, UAS)."),
    ] = False,
    **options: Unpack[LinkOptions],
) -> "HeadTable":
    """Which heads know subjects, objects and the other dependencies of a treebank?

    The answer of a head is the word that a word attends to most.

    Columns:
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
                   with --control: accuracy for moved links; accuracy less that
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
    _check_rows(options, of_heads=trees or by == "head")
    from attnprobe.commands.call.finding import find_links
    from attnprobe.session.texts import GoldLinks

    chosen = {"labels": relations, "subtypes": subtypes, "min_links": min_links}
    rows = "trees" if trees else by
    return find_links("syntax", GoldLinks.TREEBANK, model, texts, rows, chosen, options)


@command(TableOutput)
def coreference(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["mention", "head"],
        Option("A row for each kind of mention with its best head, or for each head."),
    ] = "mention",
    min_links: _MinLinks = MIN_LINKS,
    **options: Unpack[LinkOptions],
) -> "HeadTable":
    """Which heads look from a pronoun or a name to what it stands for?

    Of the other mentions, the answer of a head is the one whose head word the mention's head word
    attends to most. Files: CoNLL-U with Entity= (CorefUD), the tsv of GAP.

    Columns:
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
                   with --control: accuracy for moved links; accuracy less that

    Examples:
      attnprobe coreference demo
      attnprobe coreference bert-base-uncased -d gap-test.tsv
      attnprobe coreference my-bert -d gum.conllu --by-group genre

    Returns:
        One row a kind of mention, with its best head; or see ``by``.
    """
    _check_rows(options, of_heads=by == "head")
    from attnprobe.commands.call.finding import find_links
    from attnprobe.session.texts import GoldLinks

    chosen = {"min_links": min_links}
    return find_links("coreference", GoldLinks.COREFERENCE, model, texts, by, chosen, options)


@command(TableOutput)
def links(
    model: ModelArgument,
    texts: GoldArgument = None,
    *,
    by: Annotated[
        Literal["label", "head"],
        Option("A row for each label with its best head, or for each head."),
    ] = "label",
    metric: Annotated[
        Literal["accuracy", "aer"],
        Option(
            "accuracy, or aer: the alignment error rate of a pair of texts.",
        ),
    ] = "accuracy",
    alignments: Annotated[
        "str | Path | Sequence[str] | None",
        Option(
            "A file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each pair.",
            doc="The path of a file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each "
            "pair of texts; or such a string for each.",
            metavar="FILE",
            panel=TEXT,
            line=str | None,
            reads="data",
        ),
    ] = None,
    targets: Annotated[
        "str | Path | Sequence[str] | None",
        Option(
            "A file of second texts, a line for each line of the dataset.",
            doc="The path of a file of second texts, a line for each line of the dataset; of a list of "
            "texts, a second one for each.",
            metavar="FILE",
            panel=TEXT,
            line=str | None,
            reads="data",
        ),
    ] = None,
    one_based: Annotated[
        bool,
        Option(
            "Words of --alignments count from 1, as those of Europarl do, and not from 0.",
            panel=TEXT,
            hidden=True,
        ),
    ] = False,
    weights: Annotated[
        Literal["attention", "norm", "both"],
        Option(
            "attention, norm (keys weighted by what they carry) or both.",
            panel=TEXT,
            metavar="KIND",
            hidden=True,
        ),
    ] = "attention",
    labels: Annotated[
        str | Sequence[str] | None,
        Option(
            "Ask for these labels only.",
            metavar="NAME,NAME",
            panel=TEXT,
            line=str | None,
        ),
    ] = None,
    min_links: _MinLinks = MIN_LINKS,
    **options: Unpack[AlignmentOptions],
) -> "HeadTable":
    """Which heads look from one end of any gold links to the other?

    Atom maps of reactions, alignments of translations, entities, citations: JSON lines such as
    {"text": "the dog", "links": [{"source": [0, 3], "target": [4, 7], "label": "det"}]}, characters
    counted from 0; "text_pair" is a second text, "target" what a decoder reads. --alignments reads
    word alignments as aligners write them (Pharaoh).

    Columns:
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
                   with --control: accuracy for moved links; accuracy less that
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
    _check_rows(options, of_heads=by == "head")
    if metric == "aer" and (labels is not None or min_links != MIN_LINKS):
        raise UsageError(
            "--metric aer scores whole alignments, whatever the labels; leave out --labels and --min-links."
        )
    if metric == "aer" and options["control"] is not None:
        raise UsageError("--metric aer has no control; leave out --control.")
    if alignments is None and (targets is not None or one_based):
        raise UsageError("--targets and --one-based go with --alignments; name the file of the alignments.")
    from attnprobe.commands.call.alignments import open_aligned
    from attnprobe.commands.call.finding import find_links
    from attnprobe.session.texts import GoldLinks

    aligned = None
    if alignments is not None:
        aligned = partial(open_aligned, texts, alignments, targets, options, one_based=one_based)
    chosen, named = {"labels": labels, "min_links": min_links}, {**options, "weights": weights}
    return find_links(
        "links", GoldLinks.LINKS, model, texts, by, chosen, named, metric=metric, aligned=aligned
    )
