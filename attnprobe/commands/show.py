"""The commands that make pictures: view, of what heads look at in one sentence, and plot, of tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import picture_output
from attnprobe.commands.registry import Rule, command, split_names
from attnprobe.option import Group, Option
from attnprobe.options import TEXT, OneModel
from attnprobe.reports.theme import ThemeName
from attnprobe.table.formats import FORMATS, READABLE, either
from attnprobe.table.kinds import PictureKind

if TYPE_CHECKING:
    from attnprobe.reports.picture import Picture
    from attnprobe.reports.view import View
    from attnprobe.table.head_table import HeadTable

_VIEW = "Picture"
_NEEDS_HEAD = "--layer needs a --head; or --rollout, which has one map for each layer."


@command(
    OneModel,
    picture_output(
        "Write a file: .html for a page to look around in, .svg, .png or .pdf for a graphic. Default: a "
        "page in the browser."
    ),
    rules=[
        Rule("--head needs the --layer that it is in.", given=("head",), lacks=("layer",)),
        Rule(_NEEDS_HEAD, given=("layer",), lacks=("head", "rollout")),
    ],
    guesses=("show", "look", "visualize", "visualise", "bertviz", "text"),
)
def view(
    model: Any,
    text: Annotated[
        str | Path,
        Option(
            "A sentence, - for standard input, or the file of an image or of sound for a model that sees or "
            "hears.",
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
            "Read only so many tokens of the text, special tokens included. A picture takes 256.",
            low=1,
            panel=TEXT,
        ),
    ] = None,
    attention: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        Option("Which attention is shown first, of a model with an encoder and a decoder.", panel=_VIEW),
    ] = None,
    layer: Annotated[int | None, Option("The layer to show, counted from 0.", low=0, panel=_VIEW)] = None,
    head: Annotated[
        int | None,
        Option("The head to show, counted from 0. A graphic shows all heads without it.", low=0, panel=_VIEW),
    ] = None,
    draw: Annotated[
        Literal["lines", "map"] | None,
        Option(
            "Draw a head as lines between tokens, or as a map. Default: lines; of an image, its patches.",
            panel=_VIEW,
        ),
    ] = None,
    words: Annotated[
        bool,
        Option(
            "Show whole words: attention to a word is the sum over its tokens, from a word their mean.",
            panel=_VIEW,
        ),
    ] = False,
    hide_special: Annotated[
        bool,
        Option("Leave special tokens out of the picture. Other numbers stay what they are.", panel=_VIEW),
    ] = False,
    rollout: Annotated[
        bool,
        Option(
            "Show attention rolled out over layers too. It is a picture, no measure of a head.", panel=_VIEW
        ),
    ] = False,
    theme: Annotated[
        ThemeName | None,
        Option(
            "Colours and sizes of a graphic; paper has black ink. A page is as its reader's screen.",
            panel=_VIEW,
        ),
    ] = None,
    width: Annotated[
        int | None,
        Option(
            "About how wide a graphic is; 96 pixels make an inch. Labels keep their size.",
            metavar="PIXELS",
            panel=_VIEW,
        ),
    ] = None,
    **options: Any,
) -> "View":
    """Show what every head looks at in one sentence.

    The page holds a small map of every head, and one head large: as lines between tokens or as a map, of
    words or of their pieces, with numbers for each token. It is one file that needs no network. A name that
    ends in .svg, .png or .pdf gives a graphic instead, of the head that --layer and --head name, or of all
    heads.

    Examples:
      attnprobe view demo "The parcel came late, and she signed for it."

      attnprobe view demo "The parcel came late." -o parcel.html --rollout

      attnprobe view my-bert "It came late." --layer 3 --head 2 -o head.pdf

      attnprobe view google/vit-base-patch16-224 cat.png -o cat.html

      attnprobe view my-vlm "What is on the mat?" --image cat.png -o cat.html

    Returns:
        A picture that shows itself in a notebook, with ``save`` for .html, .svg, .png and .pdf, and
        ``attention`` for the numbers: (layer, head, query, key) by kind.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do, such as for a text of more than
            256 tokens.

    References:
        Abnar and Zuidema (2020), Quantifying attention flow in transformers (rollout). Clark et al. (2019),
        What does BERT look at? (words).

    >>> seen = view("demo", "The parcel came late.", layer=3, head=2)
    >>> seen.attention["encoder"].shape
    (6, 4, 9, 9)
    """
    from attnprobe.commands.call.viewing import Look, look_at
    from attnprobe.reports.theme import check_look
    from attnprobe.reports.view import View

    check_look(theme, width)
    look = Look(attention, layer, head, draw, words=words, special=not hide_special, rollout=rollout)
    found = look_at(model, text, text_pair, target, max_length, look, options, image)
    return View(found, look.start(found), layer is not None, theme, width)


class _Drawing(Group):
    """How tables are drawn."""

    tables: Annotated[
        "HeadTable | Path | str | Sequence[HeadTable | Path | str]",
        Option(
            f"Tables that attnprobe wrote: {either(READABLE)}.",
            doc="A table, or the file of one; or several of one kind, for one picture.",
            metavar="TABLE...",
            line=list[Path],
            argument=True,
            reads="table",
        ),
    ]
    kind: Annotated[
        PictureKind | None, Option("What to draw, where a table can be drawn in more ways than one.")
    ] = None
    measure: Annotated[
        str | Sequence[str] | None,
        Option(
            "Columns to draw. Default: those that the table puts first.", metavar="NAME,NAME", line=str | None
        ),
    ] = None
    theme: Annotated[ThemeName, Option("Colours and sizes; paper has black ink.")] = "light"
    width: Annotated[int | None, Option("About how wide; 96 pixels make an inch.", metavar="PIXELS")] = None
    title: Annotated[
        str | None, Option('What stands above; "" for nothing. Default: the table\'s title.')
    ] = None
    clusters: Annotated[
        int | None,
        Option(
            "Draw the tree of heads, of distance --all-pairs, cut into so many parts. Default: cut at 0.7 "
            "of the height of its last join.",
            doc="Into how many parts a tree of heads is cut, of a table of all pairs of heads; by default "
            "it is cut at 0.7 of the height of its last join. picture.clusters is a table of which head is "
            "in which.",
            metavar="N",
            low=1,
        ),
    ] = None
    save_clusters: Annotated[
        Path | None,
        Option(
            f"Write which head is in which cluster too; {either(FORMATS, before='.')}.",
            metavar="PATH",
            place=True,
            python=False,
        ),
    ] = None


@command(
    picture_output("Write a file; .svg, .png, .pdf or .html picks the format."),
    _Drawing,
    guesses=("figure", "heatmap", "chart", "picture", "draw", "graph"),
)
def plot(
    tables: Any,
    *,
    kind: PictureKind | None = None,
    measure: str | Sequence[str] | None = None,
    theme: ThemeName = "light",
    width: int | None = None,
    title: str | None = None,
    clusters: int | None = None,
) -> "Picture":
    """Draw a table of any command: svg, png, pdf, or a page with tooltips.

    Each table has a picture of its own: a heat map of heads, a map or a tree of heads by their attention (of
    distance --all-pairs), curves of prune, a scatter of correlate --by head, what heads find (of syntax),
    roles, lines over training (of dynamics). Several tables of one kind make one picture. In a pipe, the
    picture is svg.

    Examples:
      attnprobe entropy demo -o entropy.csv

      attnprobe plot entropy.csv -o entropy.pdf --theme paper

      attnprobe plot pairs.csv -o tree.svg --clusters 6 --save-clusters a.csv

    Returns:
        A picture that shows itself in a notebook; ``picture.save("heads.pdf")`` writes svg, png, pdf or html.

    Raises:
        AttnprobeError: When something is no table, or can't be drawn like this; it says as what else.

    >>> from attnprobe import entropy
    >>> plot(entropy("demo", ["The parcel came late."]))
    Picture(kind='heatmap', title='entropy of heads')
    """
    from attnprobe.reports.pictures.choosing import draw_picture
    from attnprobe.table.head_table import HeadTable

    given = [tables] if isinstance(tables, HeadTable | Path | str) else list(tables)
    read = [one if isinstance(one, HeadTable) else HeadTable.read(one) for one in given]
    return draw_picture(read, kind, split_names(measure) or [], theme, width, title, clusters)
