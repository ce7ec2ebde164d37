"""The command that shows what every head looks at in one sentence, an image or a sound: view."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.commands.show import PictureOutput
from attnprobe.options import TEXT, LoadedOptions, ModelArgument
from attnprobe.registry import Option, Rule, command
from attnprobe.reports.theme import ThemeName

if TYPE_CHECKING:
    from attnprobe.reports.view.view import View
    from attnprobe.table.table import HeadTable

_NEEDS_HEAD = "--layer needs a --head; or --rollout, which has one map for each layer."


@command(
    PictureOutput,
    rules=[
        Rule("--head needs the --layer that it is in.", given=("head",), lacks=("layer",)),
        Rule(_NEEDS_HEAD, given=("layer",), lacks=("head", "rollout")),
        Rule("--role names a head, and so does --layer; leave out one.", given=("role",), beside=("layer",)),
        Rule(
            "--role needs a --census that names roles: a table that `attnprobe roles` wrote.",
            given=("role",),
            lacks=("census",),
        ),
        Rule(
            "--alignment is between the words of two texts; give the other one with --target, or behind the "
            "first.",
            given=("alignment",),
            lacks=("target", "text_pair"),
        ),
        Rule(
            "--alignment is between words of text; leave out --image.",
            given=("alignment",),
            beside=("image",),
        ),
    ],
)
def view(
    model: ModelArgument,
    text: Annotated[
        str | Path,
        Option(
            "A sentence, - for standard input, or the file of an image or of sound.",
            metavar="TEXT",
            line=str,
            argument=True,
            reads="data",
        ),
    ],
    text_pair: Annotated[
        str | None,
        Option("A second text that is read together with the first.", metavar="[SECOND TEXT]", argument=True),
    ] = None,
    *,
    target: Annotated[
        str | None,
        Option(
            "What the decoder beside an encoder reads. Default: the text itself.",
            doc="What the decoder beside an encoder reads; by default the text itself. Of sound, what is "
            "said in it, without which only the encoder is read.",
            metavar="TEXT",
            panel=TEXT,
        ),
    ] = None,
    image: Annotated[
        Path | str | None,
        Option(
            "The file of an image that the model reads together with the text.",
            metavar="FILE",
            line=Path | None,
            panel=TEXT,
            reads="data",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        Option(
            "Read only so many tokens of the text.",
            doc="Read only so many tokens of the text, special tokens included. A picture takes 256.",
            low=1,
            panel=TEXT,
        ),
    ] = None,
    attention: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        Option("Which attention is shown first, of a model with an encoder and a decoder."),
    ] = None,
    alignment: Annotated[
        str | None,
        Option(
            "Mark a gold alignment of words, such as 0-0 1-2 1p3 (p: possible).",
            doc="The gold alignment of the text and its target, or of two texts, as aligners write it: 0-0 "
            "1-2 1p3 (p: possible; words between blanks, from 0). It is marked between whole words, and what "
            "each head finds of it is counted.",
            metavar="LINKS",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        Option(
            "The layer to show, from 0. Default: that of the sharpest head.",
            doc="The layer to show, counted from 0; by default that of the sharpest head, whose attention "
            "beyond special tokens has the lowest entropy; with alignment, of the head with the fewest "
            "errors.",
            low=0,
        ),
    ] = None,
    head: Annotated[int | None, Option("The head to show, from 0.", low=0)] = None,
    role: Annotated[
        str | None,
        Option("Show the head that has this role most clearly, in a table of --census.", metavar="NAME"),
    ] = None,
    census: Annotated[
        "HeadTable | Path | str | Sequence[HeadTable | Path | str] | None",
        Option(
            "A table of census or roles, to show its numbers beside each head.",
            metavar="TABLE",
            line=list[Path] | None,
            reads="table",
        ),
    ] = None,
    draw: Annotated[
        Literal["lines", "map"] | None,
        Option(
            "lines or map.",
            doc="Draw a head as lines between tokens, or as a map. By default lines; of an image, its "
            "patches; of an alignment, a map.",
            metavar="HOW",
        ),
    ] = None,
    words: Annotated[
        bool,
        Option(
            "Show whole words.",
            doc="Show whole words: attention to a word is the sum over its tokens, from a word their mean.",
        ),
    ] = False,
    hide_special: Annotated[bool, Option("Leave special tokens out of the picture.")] = False,
    rollout: Annotated[bool, Option("Show attention rolled out over layers too.")] = False,
    theme: Annotated[ThemeName | None, Option("Colours and sizes of a graphic.", metavar="NAME")] = None,
    width: Annotated[
        str | int | None,
        Option("About how wide a graphic is: 3.05in, 85mm or 605px.", metavar="LENGTH", line=str | None),
    ] = None,
    **options: Unpack[LoadedOptions],
) -> "View":
    """What does every head look at in one sentence?

    The page holds a small map of every head, and one head large: as lines between tokens, as a map or
    as running text, of words or of their pieces. It opens on the sharpest head, is one file that
    needs no network, and parcel.html#head=3.2 is a link to a head. A name that ends in .svg, .png or
    .pdf gives a graphic instead, of the head that --layer and --head or --role name, or of all heads.

    Examples:
      attnprobe view demo "The parcel came late, and she signed for it."
      attnprobe view my-bert "It came late." --layer 3 --head 2 -o head.pdf
      attnprobe view en-de "the house" --target "das Haus" --alignment "0-0 1-1"
      attnprobe view my-vlm "What is on the mat?" --image cat.png -o cat.html

    Returns:
        A picture that shows itself in a notebook, with ``save`` for .html, .svg, .png and .pdf, and
        ``attention`` for the numbers: (layer, head, query, key) by kind.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do, such as for a text of more than
            256 tokens.

    References:
        Abnar and Zuidema (2020), Quantifying attention flow in transformers (rollout). Clark et al. (2019),
        What does BERT look at? (words). Xiao et al. (2024), Efficient streaming language models with
        attention sinks (the sharpest head of a decoder).

    >>> seen = view("demo", "The parcel came late.", layer=3, head=2)
    >>> seen.attention["encoder"].shape
    (6, 4, 9, 9)
    """
    from attnprobe.commands.call.viewing import choose_start, find_aligned, find_head, look_at
    from attnprobe.reports.theme import check_theme, parse_width
    from attnprobe.reports.view.notes import check_notes, read_notes
    from attnprobe.reports.view.view import View

    check_theme(theme)
    pixels = parse_width(width)
    tables = [] if census is None else read_notes(census)
    shown = {"rollout": rollout, "alignment": alignment}
    seen = look_at(model, text, text_pair, target, max_length, image, options, **shown)
    notes = check_notes(tables, seen)
    kind = attention if alignment is None else find_aligned(seen, attention)
    chosen = layer is not None or role is not None or alignment is not None
    if alignment is not None:
        words, draw = True, draw or "map"
    if role is not None:
        layer, head = find_head(seen, kind, role, notes)
    start = choose_start(seen, kind, layer, head, draw, words=words, special=not hide_special)
    return View(seen, start, chosen, theme, pixels, notes)
