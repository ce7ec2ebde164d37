"""The command that shows the attention of one sequence."""

import sys
from typing import Annotated, Literal

import typer

from attnprobe.cli.options import TEXT, ModelOptions, PictureOptions, pictures_in, takes
from attnprobe.cli.session import call, keywords, said_as_written, settle, speaks
from attnprobe.errors import AttnprobeError
from attnprobe.reports.theme import ThemeName

_VIEW = "Picture"


_OUTPUT = pictures_in(
    "Write a file: .html for a page to look around in, .svg, .png or .pdf for a graphic. Default: a page in "
    "the browser."
)


@takes(ModelOptions, _OUTPUT)
def view(
    model: ModelOptions,
    output: PictureOptions,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="A sentence, - for standard input, or the file of an image or of sound for a model that "
            "sees or hears.",
        ),
    ],
    text_pair: Annotated[
        str | None,
        typer.Argument(metavar="[SECOND TEXT]", help="A second text that is read together with the first."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What the decoder beside an encoder reads. Default: the text itself.",
            rich_help_panel=TEXT,
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Read only so many tokens of the text, special tokens included. A picture takes 256.",
            min=1,
            rich_help_panel=TEXT,
        ),
    ] = None,
    attention: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        typer.Option(
            help="Which attention is shown first, of a model with an encoder and a decoder.",
            rich_help_panel=_VIEW,
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(help="The layer to show, counted from 0.", min=0, rich_help_panel=_VIEW),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            help="The head to show, counted from 0. A graphic shows all heads without it.",
            min=0,
            rich_help_panel=_VIEW,
        ),
    ] = None,
    draw: Annotated[
        Literal["lines", "map"] | None,
        typer.Option(
            help="Draw a head as lines between tokens, or as a map. Default: lines; of an image, its "
            "patches.",
            rich_help_panel=_VIEW,
        ),
    ] = None,
    words: Annotated[
        bool,
        typer.Option(
            "--words",
            help="Show whole words: attention to a word is the sum over its tokens, from a word their mean.",
            rich_help_panel=_VIEW,
        ),
    ] = False,
    hide_special: Annotated[
        bool,
        typer.Option(
            "--hide-special",
            help="Leave special tokens out of the picture. Other numbers stay what they are.",
            rich_help_panel=_VIEW,
        ),
    ] = False,
    rollout: Annotated[
        bool,
        typer.Option(
            "--rollout",
            help="Show attention rolled out over layers too. It is a picture, no measure of a head.",
            rich_help_panel=_VIEW,
        ),
    ] = False,
    theme: Annotated[
        ThemeName | None,
        typer.Option(
            help="Colours and sizes of a graphic; paper has black ink. A page is as its reader's screen.",
            rich_help_panel=_VIEW,
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            metavar="PIXELS",
            help="About how wide a graphic is; 96 pixels make an inch. Labels keep their size.",
            rich_help_panel=_VIEW,
        ),
    ] = None,
) -> None:
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
    """
    from attnprobe.reports.view.view import FORMATS, check_look, check_look_of
    from attnprobe.table.destination import format_of

    path = settle(model, output, FORMATS, [text])
    check_look(theme, width)
    check_look_of("html" if path is None else format_of(path, FORMATS), theme, width)
    from attnprobe.api import view as api
    from attnprobe.cli.browsing import browser_there, shown_in_browser

    if path is None and not browser_there():
        raise AttnprobeError(
            "There is no browser here to show the page in; write it to a file with -o view.html."
        )
    options = keywords(model) | {
        "target": target,
        "max_length": max_length,
        "attention": attention,
        "layer": layer,
        "head": head,
        "draw": draw,
        "words": words,
        "hide_special": hide_special,
        "rollout": rollout,
        "theme": theme,
        "width": width,
    }
    text = _read(text)
    found = call(api.view, output, model.model, text, text_pair, **options)
    if not speaks():  # the first process writes it
        return
    written = found.save(path, overwrite=True) if path is not None else shown_in_browser(found)
    said_as_written(written, output)


def _read(text: str) -> str:
    if text != "-":
        return text
    return sys.stdin.buffer.read().decode("utf-8", errors="replace").strip()
