"""The commands that make pictures: view of one sentence, an image or a sound, and plot of tables."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.corpus.alignments import align_document
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import BOTH, EXTENSIONS, IMAGE, Item, MediaFolder, Picture
from attnprobe.errors import UsageError
from attnprobe.options import LoadedOptions, Messages, ModelArgument, output_option, path_option, text_option
from attnprobe.registry import Option, command, split_names
from attnprobe.reports.charts.kinds import PictureKind
from attnprobe.reports.theme import ThemeName, parse_width
from attnprobe.session.session import open_call
from attnprobe.table.formats import READABLE, either
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.reports.picture import Picture as Drawing
    from attnprobe.reports.view.packing import Start
    from attnprobe.reports.view.view import View
    from attnprobe.table.sequence import SequenceAttention


class PictureOutput(Messages, total=False):
    """Where a picture goes."""

    output: Annotated[Path | None, path_option("Write a file: .svg, .png, .pdf or .html.")]
    overwrite: Annotated[bool, output_option("Replace a file that exists.")]


@command(PictureOutput)
def view(
    model: ModelArgument,
    text: Annotated[
        str | Path,
        Option(
            "A sentence, - for standard input, or the file of an image or of sound.",
            metavar="TEXT",
            argument=True,
            reads="data",
        ),
    ],
    text_pair: Annotated[
        str | None,
        Option("A second text, read together with the first.", metavar="[SECOND TEXT]", argument=True),
    ] = None,
    *,
    target: Annotated[
        str | None,
        text_option(
            "Text for the decoder of an encoder-decoder model; of sound, the transcript. Default: the text.",
            metavar="TEXT",
        ),
    ] = None,
    image: Annotated[
        Path | str | None,
        text_option("An image, read together with the text.", metavar="FILE", reads="data"),
    ] = None,
    max_length: Annotated[
        int | None, text_option("Read at most N tokens, special ones included; 256 for a graphic.", low=1)
    ] = None,
    attention: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        Option("Attention to show first, in an encoder-decoder model."),
    ] = None,
    alignment: Annotated[
        str | None,
        Option(
            "Mark gold word alignments with the other text: 0-0 1-2 1p3 (p: possible).",
            metavar="LINKS",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        Option(
            "The layer to show, from 0. Default: that of the sharpest head, or of the best at --alignment.",
            low=0,
        ),
    ] = None,
    head: Annotated[int | None, Option("The head to show, from 0.", low=0)] = None,
    role: Annotated[
        str | None, Option("Show the head with this role and the highest value, from a table of --census.")
    ] = None,
    census: Annotated[
        "HeadTable | Path | str | Sequence[HeadTable | Path | str] | None",
        Option(
            "A table of census or roles whose numbers are shown beside each head.",
            metavar="TABLE",
            line=list[Path] | None,
            reads="table",
        ),
    ] = None,
    draw: Annotated[
        Literal["lines", "map"] | None,
        Option("lines or map. Default: lines; patches of an image; a map of an alignment.", metavar="HOW"),
    ] = None,
    words: Annotated[
        bool,
        Option("Show whole words: attention to a word is summed over its tokens, from a word averaged."),
    ] = False,
    hide_special: Annotated[bool, Option("Leave out special tokens.")] = False,
    rollout: Annotated[bool, Option("Also show attention rollout over layers.")] = False,
    theme: Annotated[ThemeName | None, Option("Colours and sizes of a graphic.")] = None,
    width: Annotated[
        str | int | None, Option("Width of a graphic: 3.05in, 85mm or 605px.", metavar="LENGTH")
    ] = None,
    **options: Unpack[LoadedOptions],
) -> "View":
    """What does every head look at in one sentence?

    The page shows a small map of every head, and one head large: as lines between tokens, a map, or
    running text. It opens on the sharpest head (least entropy, special tokens aside), needs no
    network, and parcel.html#head=3.2 links to a head. A name that ends in .svg, .png or .pdf gives a
    graphic of the head that --layer and --head or --role name, or of all heads.

    Examples:
      attnprobe view demo "The parcel came late, and she signed for it."
      attnprobe view my-bert "It came late." --layer 3 --head 2 -o head.pdf
      attnprobe view en-de "the house" --target "das Haus" --alignment "0-0 1-1"
      attnprobe view my-vlm "What is on the mat?" --image cat.png -o cat.html

    Returns:
        A picture that shows itself in a notebook, with ``save``, and ``attention`` for the numbers: (layer,
        head, query, key) by kind.

    References:
        Abnar and Zuidema (2020), Quantifying attention flow in transformers (rollout). Clark et al. (2019),
        What does BERT look at? (words). Xiao et al. (2024), Efficient streaming language models with
        attention sinks (the sharpest head of a decoder).

    >>> seen = view("demo", "The parcel came late.", layer=3, head=2)
    >>> seen.attention["encoder"].shape
    (6, 4, 9, 9)
    """
    from attnprobe.reports.view.notes import check_notes, find_role, read_notes
    from attnprobe.reports.view.view import View

    if head is not None and layer is None:
        raise UsageError("--head needs the --layer that it is in.")
    if layer is not None and head is None and not rollout:
        raise UsageError("--layer needs a --head; or --rollout, which has one map for each layer.")
    if role is not None and layer is not None:
        raise UsageError("--role names a head, and so does --layer; leave out one.")
    if role is not None and census is None:
        raise UsageError("--role needs a --census that names roles: a table that `attnprobe roles` wrote.")
    pixels = parse_width(width)
    tables = [] if census is None else read_notes(census)
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", errors="replace").strip()
    documents = _read_input(text, text_pair, target, image)
    if alignment is not None:
        documents = _align(documents, alignment, target)
        words, draw = True, draw or "map"
    kind = documents.kind if isinstance(documents, MediaFolder) else "text" if image is None else BOTH
    with open_call(options, model) as call:
        from attnprobe.run.preparation import examine_part
        from attnprobe.survey.maps import read_maps

        checkpoint = call.load_checkpoint(modality=kind)
        checkpoint, documents, architecture = examine_part(checkpoint, documents, call.progress)
        shown = {"max_length": max_length, "target": target, "rolled": rollout}
        shown["aligned"] = alignment is not None
        seen = read_maps(checkpoint, architecture, documents, **shown, progress=call.progress)
    notes = check_notes(tables, seen)
    maps = seen.of(attention if alignment is None else _find_aligned(seen, attention))
    if role is not None:
        place, head = find_role(notes, role, maps)
        layer = maps.layers[place]
    start = _choose_start(maps, layer, head, draw, words=words, special=not hide_special)
    chosen = layer is not None or alignment is not None
    return View(seen, start, chosen, theme, pixels, notes)


def _read_input(
    text: str | Path, pair: str | None, target: str | None, image: Path | str | None
) -> list[Document] | MediaFolder:
    """Read a text, two of them, a text with an image, or an image or sound, or refuse what is none."""
    path = Path(text)
    kind = EXTENSIONS.get(path.suffix.lower()) if image is None and "\n" not in str(text) else None
    if kind is not None and os.path.isfile(path):  # noqa: PTH113 - a long text is no path
        if pair is not None or (kind == IMAGE and target is not None):
            raise UsageError(f"The file of {kind} has no second text; leave it out.")
        return MediaFolder(path, kind, (Item(path, target),))
    if isinstance(text, Path) or (kind is not None and len(str(text).split()) == 1):
        raise UsageError(f"There is no image or sound {str(text)!r}.")
    if not text.strip() or (pair is not None and not pair.strip()):
        raise UsageError("The text is blank; give one with words in it.")
    if image is None:
        return [Document(text, pair, label=target)]
    if pair is not None:
        raise UsageError("An image is read with one text; leave out the second.")
    if not os.path.isfile(image):  # noqa: PTH113
        raise UsageError(f"There is no image {str(image)!r}.")
    return [Document(text, image=Picture("--image", Path(image)))]


def _align(documents: Any, line: str, target: str | None) -> list[Document]:
    """Annotate the two texts of a document with the links of an alignment, or refuse other input."""
    if not isinstance(documents, list) or documents[0].image is not None:
        raise UsageError("--alignment is between words of text; leave out the image or sound.")
    (document,) = documents
    if document.pair is None and (target is None or not target.strip()):
        raise UsageError("--alignment is between the words of two texts; give the other one with --target.")
    if not line.strip():
        raise UsageError("The alignment is blank; write links such as 0-0 1-2, or leave out --alignment.")
    return [align_document(document, line, "--alignment") or document]


def _find_aligned(seen: "SequenceAttention", attention: str | None) -> str:
    """Name the attention that lies between two aligned texts; the one asked for, or refuse another."""
    between = [one.kind.value for one in seen.maps if one.alignment is not None]
    if attention is not None and seen.of(attention).alignment is None:
        raise UsageError(
            f"The two texts are aligned in the {' and '.join(between)} attention of this model, not in that "
            f"of its {attention}; leave out --attention."
        )
    return attention or between[0]


def _choose_start(
    maps: Any, layer: int | None, head: int | None, draw: str | None, *, words: bool, special: bool
) -> "Start":
    """Choose what is shown first, or refuse what is not there; ``special`` shows special tokens too."""
    from attnprobe.reports.view.packing import Start
    from attnprobe.survey.finder import find_best_head
    from attnprobe.survey.maps import find_sharpest

    heads, sides = maps.rows.shape[1], (maps.queries, maps.keys)
    if layer is None:
        place, head = (find_sharpest if maps.alignment is None else find_best_head)(maps)
    elif layer not in maps.layers:
        there = ", ".join(map(str, maps.layers))
        raise UsageError(f"There is no layer {layer}; the layers of the {maps.kind.value} are {there}.")
    else:
        place = maps.layers.index(layer)
        if head is None and maps.rolled is None:
            raise UsageError("Cross-attention has no rollout; give a --head.")
        if head is not None and head >= heads:
            raise UsageError(f"There is no head {head}; a layer has heads 0 to {heads - 1}.")
        if head is not None and not maps.kept[place, head]:
            raise UsageError(f"Head {head} of layer {layer} was removed from this checkpoint.")
    if words and any(side.words is None for side in sides):
        raise UsageError(
            "Nobody tells which tokens make a word here: words need a text, and a tokenizer that says "
            "which characters a token covers; leave out --words."
        )
    if not special and any(side.special.all() for side in sides):
        raise UsageError("Every token is a special one; leave out --hide-special.")
    if maps.keys.grid is not None and draw == "lines":
        raise UsageError("Lines are for text; leave out --draw for the patches of an image, or give map.")
    draw = draw or ("lines" if maps.keys.grid is None else "patches")
    return Start(maps.kind.value, place, heads if head is None else head, draw, words, special)


@command(PictureOutput)
def plot(
    tables: Annotated[
        "HeadTable | Path | str | Sequence[HeadTable | Path | str]",
        Option(
            f"Tables that attnprobe wrote: {either(READABLE)}; several of one kind make one picture.",
            metavar="TABLE...",
            line=list[Path],
            argument=True,
            reads="table",
        ),
    ],
    *,
    kind: Annotated[PictureKind | None, Option("Kind of picture, if a table has several.")] = None,
    only: Annotated[
        str | Sequence[str] | None,
        Option("Draw these columns. Default: the table's main columns.", metavar="COLUMN,..."),
    ] = None,
    rows: Annotated[int | None, Option("Draw only the first N rows.", low=1)] = None,
    theme: Annotated[
        ThemeName | None, Option("Colours and sizes. Default: light; paper with --columns.")
    ] = None,
    width: Annotated[str | int | None, Option("Width: 3.05in, 85mm or 605px.", metavar="LENGTH")] = None,
    columns: Annotated[
        int | None,
        Option("For print: fill one column of a page (3.05 inches) or two.", metavar="1|2", low=1, high=2),
    ] = None,
    title: Annotated[str | None, Option('Title; "" for none. Default: the title of the table.')] = None,
    clusters: Annotated[
        int | None,
        Option("Cut the tree of all pairs of heads into N clusters. Default: at 0.7 of its height.", low=1),
    ] = None,
) -> "Drawing":
    """What does a table look like: as svg, png, pdf, or a page with tooltips?

    The table decides the picture: a heat map of heads, an atlas of what each head looks at (census
    with profile), a map or matrix of similar heads (distance --all-pairs), curves (prune), a scatter
    (correlate --by head), relations (syntax), roles, or lines over training (dynamics). In a pipe,
    plot writes svg.

    Examples:
      attnprobe entropy demo -o entropy.csv
      attnprobe plot entropy.csv -o entropy.pdf --columns 1
      attnprobe plot pairs.csv -o heads.svg --clusters 6

    >>> from attnprobe import entropy
    >>> plot(entropy("demo", ["The parcel came late."]))
    Picture(kind='heatmap', title='entropy of heads')
    """
    from attnprobe.reports.charts.draw import draw_picture

    given = [tables] if isinstance(tables, HeadTable | Path | str) else list(tables)
    read = [one if isinstance(one, HeadTable) else HeadTable.read(one) for one in given]
    taken = [table.take(rows=rows) for table in read]
    return draw_picture(taken, kind, split_names(only) or [], theme, width, title, clusters, columns=columns)
