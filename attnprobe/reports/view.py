"""Attention of one sequence: a page to look around in, or a graphic; and what a page holds of it, packed."""

import base64
import io
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.reports.head_notes import describe_notes
from attnprobe.reports.page import (
    bundle_scripts,
    embed_bytes,
    embed_json,
    frame_page,
    read_asset,
    render_page,
)
from attnprobe.reports.picture import render_pdf, render_png
from attnprobe.reports.theme import ThemeName
from attnprobe.reports.view_alignment import EXPLANATION, describe_alignment, describe_rates
from attnprobe.table.destination import Saveable
from attnprobe.table.sequence import Maps, SequenceAttention, Side, group_tokens

if TYPE_CHECKING:
    from attnprobe.table.head_table import HeadTable


#: What a picture can be saved as, by the ending of its file.
FORMATS = ("html", "svg", "png", "pdf")


def check_page_look(format: str, theme: str | None, width: int | None) -> None:
    """Refuse a theme or a width for a page, which has those of its reader's screen."""
    option = "--theme" if theme is not None else "--width" if width is not None else None
    if format == "html" and option is not None:
        raise AttnprobeError(
            f"A page is light or dark, and as wide, as its reader's screen; leave out {option}, or write an "
            ".svg, .png or .pdf."
        )


class Start(NamedTuple):
    """What a page shows first."""

    kind: str  # of attention
    layer: int  # its place among the layers of the kind
    head: int  # one more than there are is the rollout
    draw: str  # "lines", "map" or "patches"
    words: bool  # whether whole words are shown
    special: bool  # whether special tokens are shown


@dataclass(frozen=True, repr=False)
class View(Saveable):
    """The attention of one sequence, as a page to look around in, or as a graphic.

    Attributes:
        seen: The sequence and all its attention.
        start: What the page shows first, and what a graphic shows.
        chosen: Whether one head was asked for; a graphic of none shows all.
        theme: Of a graphic; light where nobody says. A page has that of its reader.
        width: Of a graphic, about how many pixels.
        notes: Tables of the model's heads, such as a census, which a page shows beside each head.
    """

    endings: ClassVar[Sequence[str]] = FORMATS

    seen: SequenceAttention = field(repr=False)
    start: Start
    chosen: bool
    theme: ThemeName | None = None
    width: int | None = None
    notes: "Sequence[HeadTable]" = field(default=(), repr=False)

    @property
    def attention(self) -> dict[str, NDArray[Any]]:
        """Attention (layer, head, query, key) of each kind that the model has, in full precision."""
        return {one.kind.value: one.rows for one in self.seen.maps}

    @property
    def tokens(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The tokens that attend and those that are attended to, for each kind of attention."""
        return {one.kind.value: (one.queries.labels, one.keys.labels) for one in self.seen.maps}

    @cached_property
    def html(self) -> str:
        """The page: one file that needs no network."""
        return write_page(self.seen, self.start, self.notes)

    @cached_property
    def svg(self) -> str:
        """The vector graphic: one head, or all heads small."""
        from attnprobe.reports.graphic import draw_view
        from attnprobe.reports.pen import LOOKS

        look = LOOKS[self.theme or "light"]
        return draw_view(self.seen, self.start, chosen=self.chosen, look=look, width=self.width)

    @property
    def png(self) -> bytes:
        """The graphic as PNG, 192 pixels to the inch."""
        return render_png(self.svg)

    @property
    def pdf(self) -> bytes:
        """The vector graphic as PDF, with its fonts inside."""
        return render_pdf(self.svg)

    def rendered(self, format: str) -> bytes:
        """Give the page or the graphic as bytes; raises AttnprobeError for the look of a page."""
        check_page_look(format, self.theme, self.width)
        found = getattr(self, format)
        return found.encode() if isinstance(found, str) else found

    @cached_property
    def _still(self) -> str:
        """The head that the page opens on, as a vector graphic, for where no script runs."""
        from attnprobe.reports.graphic import draw_view
        from attnprobe.reports.pen import LOOKS

        return draw_view(self.seen, self.start, chosen=True, look=LOOKS["light"])

    def _repr_html_(self) -> str:
        page = write_page(self.seen, self.start, self.notes, self._still)
        return frame_page(page, "Attention of one sequence", 720)

    def _repr_png_(self) -> bytes:
        """Show the head in a notebook that shows no HTML, such as one that is not trusted."""
        return render_png(self._still)

    def __repr__(self) -> str:
        kinds = ", ".join(
            f"{one.kind.value} {one.rows.shape[0]} x {one.rows.shape[1]} heads over {len(one.keys)} tokens"
            for one in self.seen.maps
        )
        return f"View({self.seen.model!r}: {kinds})"


#: What the page does, in this order.
_SCRIPTS = ("unpack.js", "data.js", "draw.js", "reading.js", "heads.js", "save.js", "view.js")
#: Most characters of a token or a text that a page holds; a text of 256 tokens has fewer.
_LONGEST, _LONGEST_TEXT = 60, 4000


def write_page(
    seen: SequenceAttention,
    start: Start,
    notes: "Sequence[HeadTable]" = (),
    still: str = "",
) -> str:
    """Write the page; see ``view.js`` for what it does. Without scripts, it shows the graphic ``still``."""
    kinds = [maps.kind.value for maps in seen.maps]
    sides = list({id(side): side for maps in seen.maps for side in (maps.queries, maps.keys)}.values())
    grid = next((maps.keys.grid for maps in seen.maps if maps.keys.grid is not None), None)
    kind = kinds.index(start.kind)
    query = find_query(seen.maps[kind]) if start.draw == "patches" else None
    chosen = start._asdict() | {"kind": kind, "from": -1 if query is None else query, "to": -1}
    data = {
        "scale": SCALE,
        "kinds": [
            _describe_kind(maps, number, sides)
            | {"gold": describe_alignment(maps, several=len(kinds) > 1)}
            | {"notes": describe_rates(maps) + describe_notes(notes, maps)}
            for number, maps in enumerate(seen.maps)
        ],
        "sides": [describe_side(side) for side in sides],
        "grid": None if grid is None else {"first": grid.first, "rows": grid.rows, "columns": grid.columns},
        "picture": None if seen.picture is None else encode_image(seen.picture),
        "chosen": chosen,
    }
    layers = {
        _name_layer(number, layer): rows
        for number, maps in enumerate(seen.maps)
        for layer, rows in enumerate(add_rollout(maps))
    }
    scripts = {name: embed_bytes(name, pack_layer(rows)) for name, rows in layers.items()}
    first = scripts.pop(_name_layer(kind, start.layer))
    return render_page(
        "view.html.jinja", [read_asset("view.css")],
        [bundle_scripts(*_SCRIPTS)],
        model=make_visible(seen.model),
        texts=[make_visible(text)[:_LONGEST_TEXT] for text in seen.texts],
        kinds=kinds,
        chosen=chosen,
        draws=["lines", "map", "text"] if grid is None else ["patches", "map"],
        grid=grid is not None,
        words=_has_words(sides),
        framed=grid is None and any(side.special.any() for side in sides),
        small=_explain_small_maps(seen, image=grid is not None),
        note=_explain_numbers(seen, image=grid is not None),
        aligned=any(maps.alignment is not None for maps in seen.maps),
        still=still and encode_svg(still),
        version=version("attnprobe"),
        data=[embed_json("data", data), first],
        later=list(scripts.values()),
    )  # fmt: skip


def _describe_kind(maps: Maps, number: int, sides: list[Side]) -> dict[str, Any]:
    queries, keys = (
        next(n for n, side in enumerate(sides) if side is own) for own in (maps.queries, maps.keys)
    )
    return {
        "name": maps.kind.value, "layers": list(maps.layers), "heads": maps.rows.shape[1],
        "rollout": maps.rolled is not None, "removed": np.argwhere(~maps.standing).tolist(),
        "queries": queries, "keys": keys, "size": list(maps.rows.shape[2:]),
        "small": _pack_small_sets(maps),
        "packed": [_name_layer(number, layer) for layer in range(len(maps.layers))],
    }  # fmt: skip


def _pack_small_sets(maps: Maps) -> dict[str, Any]:
    sides, image = [maps.queries, maps.keys], maps.keys.grid is not None
    framed = any(side.special.any() for side in sides) and not any(side.special.all() for side in sides)
    found = {}
    units = ("tokens", "words") if not image and _has_words(sides) else ("tokens",)
    for unit, plain in product(units, ("", "-plain") if not image and framed else ("",)):
        small = shrink_maps(maps, words=unit == "words", special=not plain)
        found[unit + plain] = {"size": list(small.shape[2:]), "packed": pack_small_maps(small)}
    return found


def _has_words(sides: list[Side]) -> bool:
    """Tell whether words are known, and one of them has more than one token."""
    known = all(side.words is not None for side in sides)
    return known and any(side.continues is not None and side.continues.any() for side in sides)


def describe_side(side: Side) -> dict[str, Any]:
    """Describe the tokens of a side, for ``data.js``."""
    labels, names, word_labels = (
        [make_visible(label)[:_LONGEST] for label in one]
        for one in (side.labels, side.names, side.word_labels)
    )
    special = side.special.astype(int).tolist()
    found = {"labels": labels, "names": names, "special": special, "words": None, "second": side.second}
    if side.words is not None and side.continues is not None:
        found |= {
            "words": side.words.tolist(),
            "wordLabels": word_labels,
            "specialWords": side.special_words.astype(int).tolist(),
            "continues": side.continues.astype(int).tolist(),
        }
    return found


def _name_layer(kind: int, layer: int) -> str:
    return f"layer-{kind}-{layer}"


def _explain_small_maps(seen: SequenceAttention, *, image: bool) -> str:
    if image:
        return (
            "Each small map is the image, as its first token that is no patch looks at it; the stronger a "
            "colour, the more, up to the most of that map. Choose a head, or walk with the arrow keys."
        )
    longest = max(max(maps.rows.shape[2:]) for maps in seen.maps)
    pooled = " Each cell is the most of the tokens it stands for." if longest > SMALL else ""
    return (
        f"From top to bottom: who attends; from left to right: to whom.{pooled} Choose a head, or walk with "
        "the arrow keys."
    )


def _explain_numbers(seen: SequenceAttention, *, image: bool) -> str:
    sentences = [
        "Attention is rounded to four decimals, as a share of all tokens; what is hidden is not shared out "
        "again. Colours follow the square root, so that little attention shows."
    ]
    if not image:
        sentences.append(
            "Attention to a word is the sum over its tokens, attention from a word their mean (Clark et al. "
            "2019); of rounded numbers, so that the last of its three decimals may be off by one."
        )
    if any(maps.alignment is not None for maps in seen.maps):
        sentences.append(EXPLANATION)
    if any(maps.rolled is not None for maps in seen.maps):
        sentences.append(
            "Rollout multiplies the mean map of each layer, half of it the token itself, over all layers so "
            "far (Abnar and Zuidema 2020); it is a picture, no measure of a head."
        )
    return " ".join(sentences)


Rows = NDArray[np.floating[Any]]

#: Probabilities are kept as so many parts of 1: in four decimals.
SCALE = 10_000
#: Most cells of a small map on either side.
SMALL = 32
#: Quick to pack; better packing takes ten times as long for a tenth of the size.
_LEVEL = 6
#: Most pixels on a side of an image.
_LARGEST = 512
#: What stands for blanks that would be seen nowhere, or would break a line.
_BLANKS = {" ": "\u2423", "\n": "\u21b5", "\r": "\u240d", "\t": "\u21e5", "\xa0": "\u237d"}
#: Joiners, which scripts and emoji need, and which steer nothing.
_JOINERS = "\u200c\u200d"
#: Controls, what reorders or hides text, lone surrogates, breaks, what is assigned to nobody.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def pack_layer(rows: Rows) -> str:
    """Pack the maps of a layer (head, query, key): high bytes first, then low ones, which don't compress."""
    parts = np.rint(np.clip(rows, 0, 1) * SCALE).astype(np.uint16)
    return _pack(np.stack([parts >> 8, parts & 255]).astype(np.uint8))


def pack_small_maps(rows: Rows) -> str:
    """Pack small maps, the square root of each probability in a byte."""
    return _pack(np.rint(np.sqrt(np.clip(rows, 0, 1)) * 255).astype(np.uint8))


def add_rollout(maps: Maps) -> NDArray[np.float32]:
    """Add the rollout, as one more head, to the maps of all heads (layer, head, query, key)."""
    return maps.rows if maps.rolled is None else np.concatenate([maps.rows, maps.rolled[:, None]], 1)


def shrink_maps(
    maps: Maps, *, words: bool = False, special: bool = True, most: int = SMALL
) -> NDArray[np.float32]:
    """Shrink the maps of all heads to small ones (layer, head, row, column) of what is shown."""
    rows, grid = add_rollout(maps), maps.keys.grid
    if grid is not None:
        query = find_query(maps)
        given = rows.mean(2) if query is None else rows[:, :, query]
        patches = given[..., grid.first : grid.first + len(grid)]
        patches = patches / np.maximum(patches.max(-1, keepdims=True), 1e-9)
        rows = patches.reshape(*patches.shape[:2], grid.rows, grid.columns)
    else:
        if words:
            rows = group_tokens(rows, maps.queries.words, maps.keys.words)
        if not special:
            (queries, _), (keys, _) = (
                select_tokens(side, words=words, special=False) for side in (maps.queries, maps.keys)
            )
            rows = rows[:, :, queries][..., keys]
    for axis in (2, 3):
        length = rows.shape[axis]
        if length > most:
            rows = np.maximum.reduceat(rows, np.arange(most) * length // most, axis)
    return rows.astype(np.float32)


def find_query(maps: Maps) -> int | None:
    """Find the first token of an image that is no patch; None, which stands for the mean, where none is."""
    if maps.queries.grid is None or not maps.queries.special.any():
        return None
    return int(maps.queries.special.argmax())


def select_tokens(side: Side, *, words: bool, special: bool) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Choose the tokens or words of a side that are shown: their places and labels."""
    labels = side.word_labels if words else side.labels
    hidden = side.special_words if words else side.special
    places = np.flatnonzero(np.ones(len(labels), bool) if special else ~hidden)
    return places, tuple(labels[place] for place in places)


def make_visible(text: str) -> str:
    r"""Make a token fit to be shown: what can't be seen, or steers what can, becomes a sign or its code.

    >>> [make_visible(text) for text in ("late", " ", "a\nb", "\u202eevil", "\ud800\x00")]
    ['late', '␣', 'a↵b', '⟨202E⟩evil', '⟨D800⟩⟨0000⟩']
    """
    blank = bool(text) and not text.strip()
    return "".join(_draw_character(character, blank=blank) for character in text) or "\u2205"


def encode_image(pixels: NDArray[np.uint8]) -> str:
    """Write an image (height, width, 3) into a data URL, as JPEG, small enough for a page."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=88)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def encode_svg(graphic: str) -> str:
    """Write a vector graphic into a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(graphic.encode()).decode('ascii')}"


def _draw_character(character: str, *, blank: bool) -> str:
    if character in "\n\r\t" or (blank and character in _BLANKS):
        return _BLANKS[character]
    if not blank and (character in _JOINERS or unicodedata.category(character) not in _HIDDEN):
        return character
    return f"\u27e8{ord(character):04X}\u27e9"


def _pack(content: NDArray[np.uint8]) -> str:
    return base64.b64encode(zlib.compress(content.tobytes(), _LEVEL)).decode("ascii")
