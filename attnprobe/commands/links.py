"""The commands that ask what heads find: syntax, coreference, links."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Group, Option
from attnprobe.options import GOLD, TEXT, OneModel, Targets

if TYPE_CHECKING:
    from pathlib import Path

    from attnprobe.commands.call.texts import Texts
    from attnprobe.table.table import HeadTable


class BestHeads(Group):
    """How the best heads are chosen, and what they are compared with beside simple rules."""

    folds: Annotated[int, Option("Put the documents into so many folds.", low=2, high=32)] = 5
    control: Annotated[
        Literal["links"] | None,
        Option(
            "Compare with what heads find of the same links, each moved to another word of its text at the "
            "same distance.",
        ),
    ] = None


_MinLinks = Annotated[int, Option("Leave labels out that have fewer links.", low=1, panel=TEXT)]
_LAYERS_OF_HEADS = Rule(
    "--layers picks rows of heads; give --by head with it.", given=("layers",), lacks=("by=head",)
)
_OF_BEST_HEADS = [
    Rule(f"--{name} is about the best heads; leave out --by head.", given=(name, "by=head"))
    for name in ("folds", "control")
]


@command(
    OneModel,
    *GOLD,
    BestHeads,
    Output,
    rules=[
        Rule("--trees is about whole trees; leave out --relations.", given=("trees",), beside=("relations",)),
        Rule(
            "--trees chooses no heads; leave out --folds and --control.",
            given=("trees",),
            beside=("folds", "control"),
        ),
        replace(_LAYERS_OF_HEADS, lacks=("by=head", "trees")),
        *_OF_BEST_HEADS,
    ],
)
def syntax(
    model: Any,
    texts: "Texts" = None,
    *,
    by: Annotated[
        Literal["relation", "head"],
        Option("Give one row per relation and direction with its best head, or one per head too."),
    ] = "relation",
    relations: Annotated[
        str | Sequence[str] | None,
        Option(
            "Ask for these relations only; there is no row of all then.",
            metavar="NAME,NAME",
            panel=TEXT,
            line=str | None,
        ),
    ] = None,
    subtypes: Annotated[bool, Option("Tell nsubj:pass from nsubj.", panel=TEXT)] = False,
    min_links: _MinLinks = 20,
    trees: Annotated[
        bool,
        Option(
            "Give one row per head: the share of dependencies in its maximum spanning tree (UUAS), and of "
            "words with the right head in its directed trees (UAS)."
        ),
    ] = False,
    **options: Any,
) -> "HeadTable":
    """Find the heads that know subjects, objects and the other dependencies of a treebank.

    The answer of a head is the word that a word attends to most. [bold]accuracy[/bold]: the share of
    dependencies whose other end it is; [bold]baseline[/bold]: the same for the best of some simple rules, by
    its name in [bold]baseline_rule[/bold]: a word at a fixed offset, the nearest word of a part of speech or
    that is spelled alike. [bold]accuracy_far[/bold] and
    [bold]baseline_far[/bold]: the same for dependencies whose ends are not neighbours.
    [bold]position[/bold]: a decoder beside an encoder is asked where it predicts a word (output), and where
    it reads it, one place later (input).
    The head of each fold of the documents is chosen on the other folds; the one that most chose is named
    ([bold]chosen[/bold]: their share). [bold]accuracy_selected[/bold]: what choosing and scoring on the same
    would have claimed. [bold]p[/bold]: that heads are no better than the rule (sign flips over documents,
    heads chosen anew), [bold]p_adjusted[/bold] by Holm. [bold]selectivity[/bold], with --control: accuracy
    less that of the best heads for moved links.

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
    from attnprobe.commands.call.finding import find_links
    from attnprobe.commands.call.texts import GoldLinks

    chosen = {"labels": relations, "subtypes": subtypes, "min_links": min_links}
    rows = "trees" if trees else by
    return find_links("syntax", GoldLinks.TREEBANK, model, texts, rows, chosen, options)


@command(
    OneModel,
    *GOLD,
    BestHeads,
    Output,
    rules=[_LAYERS_OF_HEADS, *_OF_BEST_HEADS],
)
def coreference(
    model: Any,
    texts: "Texts" = None,
    *,
    by: Annotated[
        Literal["mention", "head"],
        Option("Give one row per kind of mention with its best head, or one per head too."),
    ] = "mention",
    min_links: _MinLinks = 20,
    **options: Any,
) -> "HeadTable":
    """Find the heads that look from a pronoun or a name to what it stands for.

    Of the other mentions, the answer of a head is the one whose head word the mention's head word attends to
    most. [bold]accuracy[/bold]: the share of mentions of which that is an antecedent; [bold]baseline[/bold]:
    the same for the best of some simple rules, such as the nearest mention, or with the same head word; or,
    where texts name candidates, chance among them. See syntax on
    [bold]accuracy[/bold], [bold]chosen[/bold], [bold]p[/bold] and [bold]selectivity[/bold].
    Files: CoNLL-U with Entity= (CorefUD), the tsv of GAP.

    Examples:
      attnprobe coreference demo

      attnprobe coreference bert-base-uncased -d gap-test.tsv

      attnprobe coreference my-bert -d gum.conllu --by-group genre

    Returns:
        One row a kind of mention, with its best head; or see ``by``.
    """
    from attnprobe.commands.call.finding import find_links
    from attnprobe.commands.call.texts import GoldLinks

    chosen = {"min_links": min_links}
    return find_links("coreference", GoldLinks.COREFERENCE, model, texts, by, chosen, options)


@command(
    OneModel,
    *GOLD,
    Targets,
    BestHeads,
    Output,
    rules=[
        _LAYERS_OF_HEADS,
        Rule(
            "--metric aer scores whole alignments, whatever the labels; leave out --labels and --min-links.",
            given=("metric=aer",),
            beside=("labels", "min_links"),
        ),
        *(
            Rule(
                "--targets and --one-based go with --alignments; name the file of the alignments.",
                given=(name,),
                lacks=("alignments",),
            )
            for name in ("targets", "one_based")
        ),
        Rule("--metric aer has no control; leave out --control.", given=("metric=aer",), beside=("control",)),
        *_OF_BEST_HEADS,
    ],
)
def links(
    model: Any,
    texts: "Texts" = None,
    *,
    by: Annotated[
        Literal["label", "head"],
        Option(
            "Give one row per label and direction with its best head, or one per head. With --metric aer, "
            "one for the best head of each direction, or one per head."
        ),
    ] = "label",
    metric: Annotated[
        Literal["accuracy", "aer"],
        Option(
            "accuracy: how many links are found. aer: the alignment error rate of all links of a pair of "
            "texts together, with precision and recall.",
        ),
    ] = "accuracy",
    alignments: Annotated[
        "str | Path | Sequence[str] | None",
        Option(
            "A file of word alignments such as 0-0 1-2 3p3 (p: possible), a line for each pair of texts. The "
            "dataset is a table with --target-column, lines such as the house ||| das Haus, or a file of "
            "first texts beside --targets.",
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
        Option("Words of --alignments count from 1, as those of Europarl do, and not from 0.", panel=TEXT),
    ] = False,
    weights: Annotated[
        Literal["attention", "norm", "both"],
        Option(
            "norm: weight each key by the length of what it gives to the residual stream. both: rows of "
            "both. A column weights tells them apart.",
            panel=TEXT,
        ),
    ] = "attention",
    labels: Annotated[
        str | Sequence[str] | None,
        Option(
            "Ask for these labels only; there is no row of all then.",
            metavar="NAME,NAME",
            panel=TEXT,
            line=str | None,
        ),
    ] = None,
    min_links: _MinLinks = 20,
    **options: Any,
) -> "HeadTable":
    """Find the heads that look from one end of any gold links to the other.

    Atom maps of reactions, alignments of translations, entities, citations: JSON lines such as
    {"text": "the dog", "links": [{"source": [0, 3], "target": [4, 7], "label": "det"}]}, characters counted
    from 0. A second text is "text_pair", what a decoder reads "target"; "source_in" and "target_in" say in
    which text a span lies. Columns are those of syntax, and [bold]baseline_rule[/bold]: the best of some
    simple rules, such as an offset, or the nearest word of the same text.

    Word alignments: --alignments reads what aligners write (Pharaoh), and --metric aer gives the alignment
    error rate (Och and Ney 2003) of one link for each word: to the word that a head attends to most. The best
    is 0; [bold]baseline[/bold] is that of the words at the same relative place.

    Examples:
      attnprobe links demo

      attnprobe links my-molecule-model -d reactions.jsonl --control links

      attnprobe links en-de -d test.en --targets test.de --alignments gold

      attnprobe links en-de -d pairs.txt --alignments gold --metric aer

    Returns:
        One row a label and direction, with its best head; or see ``by``.
    """
    from attnprobe.commands.call.alignments import open_aligned
    from attnprobe.commands.call.finding import find_links
    from attnprobe.commands.call.texts import GoldLinks

    aligned = None
    if alignments is not None:
        aligned = partial(open_aligned, texts, alignments, targets, options, one_based=one_based)
    chosen, options = {"labels": labels, "min_links": min_links}, {**options, "weights": weights}
    return find_links(
        "links", GoldLinks.LINKS, model, texts, by, chosen, options, metric=metric, aligned=aligned
    )
