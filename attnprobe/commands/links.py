"""The commands that ask what heads find: syntax, coreference, links."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Option
from attnprobe.options import GOLD, TEXT, OneModel

if TYPE_CHECKING:
    from attnprobe.commands.call.texts import Texts
    from attnprobe.table.head_table import HeadTable

_MinLinks = Annotated[int, Option("Leave labels out that have fewer links.", low=1, panel=TEXT)]
_LAYERS_OF_HEADS = Rule(
    "--layers picks rows of heads; give --by head with it.", given=("layers",), lacks=("by=head",)
)


@command(
    OneModel,
    *GOLD,
    Output,
    rules=[
        Rule(
            "--trees gives one row per head, of whole trees; leave out --by and --relations.",
            given=("trees",),
            beside=("by", "relations"),
        ),
        replace(_LAYERS_OF_HEADS, lacks=("by=head", "trees")),
    ],
    guesses=("dependency", "dependencies", "relations", "parse", "ud", "treebank"),
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
        bool, Option("Give one row per head: the share of dependencies in its maximum spanning tree (UUAS).")
    ] = False,
    **options: Any,
) -> "HeadTable":
    """Find the heads that know subjects, objects and the other dependencies of a treebank.

    The answer of a head is the word that a word attends to most. [bold]accuracy[/bold]: the share of
    dependencies whose other end it is; [bold]baseline[/bold]: the same for the best of some simple rules, by
    its name in [bold]baseline_rule[/bold]: a word at a fixed offset, the nearest word of a part of speech,
    the nearest of those of a part of speech before or after the word that is asked, the nearest that is
    spelled alike. A rule that finds no such word takes the nearest. [bold]accuracy_far[/bold] and
    [bold]baseline_far[/bold]: the same for dependencies whose ends are not neighbours.
    [bold]position[/bold]: a decoder beside an encoder is asked where it predicts a word (output), and where
    it reads it, one place later (input).
    Head and rule are chosen on one half of the documents and scored on the other;
    [bold]accuracy_selected[/bold] is what choosing on the scored half would have claimed. [bold]p[/bold]:
    how likely chance alone would put the head so far ahead of the rule (McNemar);
    [bold]p_adjusted[/bold]: the same, corrected for the number of rows (Holm).

    Examples:
      attnprobe syntax demo

      attnprobe syntax my-bert -d dev.conllu --relations nsubj,obj,det

      attnprobe syntax my-bert -d dev.conllu --by head -o heads.csv

      attnprobe syntax my-bert -d gum.conllu --by-group genre -o genres.csv

      attnprobe syntax xlm-roberta-base -d ja_gsd-ud-test.conllu --trees

    Notes:
        Attention to a word is the sum over its tokens, attention from a word the mean over its tokens.

    Returns:
        One row a relation and direction, with its best head; or see ``by`` and ``trees``.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as links that were cut.
    """
    from attnprobe.commands.call.surveying import find_links
    from attnprobe.commands.call.texts import Gold

    chosen = {"labels": relations, "subtypes": subtypes, "min_links": min_links}
    return find_links("syntax", Gold.TREEBANK, model, texts, "trees" if trees else by, chosen, options)


@command(OneModel, *GOLD, Output, rules=[_LAYERS_OF_HEADS], guesses=("coref", "pronouns"))
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
    the same for the best of some simple rules: the nearest mention, the first, the nearest pronoun, proper
    noun or other noun, the nearest with the same words or head word, or the first with the same last word
    (the nearest where there is none). Head and rule are chosen on one half of the documents and scored on
    the other.
    Files: CoNLL-U with Entity= (CorefUD), the tsv of GAP, sentences with brackets (WinoBias).

    Examples:
      attnprobe coreference demo

      attnprobe coreference bert-base-uncased -d gap-test.tsv

      attnprobe coreference my-bert -d pro.txt -d anti.txt --by-group file

    Returns:
        One row a kind of mention, with its best head; or see ``by``.
    """
    from attnprobe.commands.call.surveying import find_links
    from attnprobe.commands.call.texts import Gold

    chosen = {"min_links": min_links}
    return find_links("coreference", Gold.COREFERENCE, model, texts, by, chosen, options)


@command(OneModel, *GOLD, Output, rules=[_LAYERS_OF_HEADS], guesses=("alignment", "align", "gold"))
def links(
    model: Any,
    texts: "Texts" = None,
    *,
    by: Annotated[
        Literal["label", "head"],
        Option("Give one row per label and direction with its best head, or one per head too."),
    ] = "label",
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

    Examples:
      attnprobe links demo

      attnprobe links my-molecule-model -d reactions.jsonl --by-group source

      attnprobe links Helsinki-NLP/opus-mt-en-de -d aligned.jsonl --by head

    Notes:
        Rules beside heads are fixed offsets, the nearest word of the same text, the word of the same text
        whose neighbours are most like those of the word that is asked, where parts of speech are known the
        nearest word of each, and, in another text, the word at the same share of its length.

    Returns:
        One row a label and direction, with its best head; or see ``by``.
    """
    from attnprobe.commands.call.surveying import find_links
    from attnprobe.commands.call.texts import Gold

    chosen = {"labels": labels, "min_links": min_links}
    return find_links("links", Gold.LINKS, model, texts, by, chosen, options)
