"""The commands that ask what heads find: syntax, coreference, links."""

from typing import Annotated, Literal

import typer

from attnprobe.cli.options import TEXT, LinkOptions, ModelOptions, OutputOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare

MinLinks = Annotated[
    int, typer.Option(help="Leave labels out that have fewer links.", min=1, rich_help_panel=TEXT)
]


@takes(ModelOptions, LinkOptions, OutputOptions)
def syntax(
    model: ModelOptions,
    source: LinkOptions,
    output: OutputOptions,
    by: Annotated[
        Literal["relation", "head"],
        typer.Option(help="Give one row per relation and direction with its best head, or one per head too."),
    ] = "relation",
    relations: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Ask for these relations only; there is no row of all then.",
            rich_help_panel=TEXT,
        ),
    ] = None,
    subtypes: Annotated[
        bool, typer.Option("--subtypes", help="Tell nsubj:pass from nsubj.", rich_help_panel=TEXT)
    ] = False,
    min_links: MinLinks = 20,
    trees: Annotated[
        bool,
        typer.Option(
            "--trees",
            help="Give one row per head: the share of dependencies in its maximum spanning tree (UUAS).",
        ),
    ] = False,
) -> None:
    """Find the heads that know subjects, objects and the other dependencies of a treebank.

    The answer of a head is the word that a word attends to most. [bold]accuracy[/bold]: the share of
    dependencies whose other end it is; [bold]baseline[/bold]: the same for the best fixed offset in words,
    which stands for the nearest word where it points outside of the sentence.
    [bold]position[/bold]: a decoder beside an encoder is asked where it predicts a word (output), and where
    it reads it, one place later (input).
    Head and offset are chosen on one half of the documents and scored on the other;
    [bold]accuracy_selected[/bold] is what choosing on the scored half would have claimed. [bold]p[/bold]:
    how likely chance alone would put the head so far ahead of the offset (McNemar);
    [bold]p_adjusted[/bold]: the same, corrected for the number of rows (Holm).

    Examples:
      attnprobe syntax demo

      attnprobe syntax my-bert -d dev.conllu --relations nsubj,obj,det

      attnprobe syntax my-bert -d dev.conllu --by head -o heads.csv

      attnprobe syntax xlm-roberta-base -d ja_gsd-ud-test.conllu --trees
    """
    prepare(model, output, source.stopping, source.reads)
    from attnprobe.api import links as api

    options = keywords(model, source) | {
        "by": by,
        "relations": relations,
        "subtypes": subtypes,
        "min_links": min_links,
        "trees": trees,
    }
    emit(call(api.syntax, output, model.model, source.data.files, **options), output)


@takes(ModelOptions, LinkOptions, OutputOptions)
def coreference(
    model: ModelOptions,
    source: LinkOptions,
    output: OutputOptions,
    by: Annotated[
        Literal["mention", "head"],
        typer.Option(help="Give one row per kind of mention with its best head, or one per head too."),
    ] = "mention",
    min_links: MinLinks = 20,
) -> None:
    """Find the heads that look from a pronoun or a name to what it stands for.

    Of the other mentions, the answer of a head is the one whose head word the mention's head word attends to
    most. [bold]accuracy[/bold]: the share of mentions of which that is an antecedent; [bold]baseline[/bold]:
    the same for the nearest mention, or for the first one with the same last word (the nearest where there is
    none). Head and rule are chosen
    on one half of the documents and scored on the other.
    Files: CoNLL-U with Entity= (CorefUD), the tsv of GAP, sentences with brackets (WinoBias).

    Examples:
      attnprobe coreference demo

      attnprobe coreference bert-base-uncased -d gap-test.tsv

      attnprobe coreference bert-base-uncased -d pro_type1.txt -d anti_type1.txt
    """
    prepare(model, output, source.stopping, source.reads)
    from attnprobe.api import links as api

    options = keywords(model, source) | {"by": by, "min_links": min_links}
    emit(call(api.coreference, output, model.model, source.data.files, **options), output)


@takes(ModelOptions, LinkOptions, OutputOptions)
def links(
    model: ModelOptions,
    source: LinkOptions,
    output: OutputOptions,
    by: Annotated[
        Literal["label", "head"],
        typer.Option(help="Give one row per label and direction with its best head, or one per head too."),
    ] = "label",
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Ask for these labels only; there is no row of all then.",
            rich_help_panel=TEXT,
        ),
    ] = None,
    min_links: MinLinks = 20,
) -> None:
    """Find the heads that look from one end of any gold links to the other.

    Atom maps of reactions, alignments of translations, entities, citations: JSON lines such as
    {"text": "the dog", "links": [{"source": [0, 3], "target": [4, 7], "label": "det"}]}, characters counted
    from 0. A second text is "text_pair", what a decoder reads "target"; "source_in" and "target_in" say in
    which text a span lies. Columns are those of syntax, and [bold]baseline_rule[/bold]: the best of some
    simple rules, such as an offset, or the nearest word of the same text.

    Examples:
      attnprobe links demo

      attnprobe links my-molecule-model -d reactions.jsonl

      attnprobe links Helsinki-NLP/opus-mt-en-de -d aligned.jsonl --by head
    """
    prepare(model, output, source.stopping, source.reads)
    from attnprobe.api import links as api

    options = keywords(model, source) | {"by": by, "labels": labels, "min_links": min_links}
    emit(call(api.links, output, model.model, source.data.files, **options), output)
