"""One sentence, ready to be drawn: which tokens are shown, small maps, packed bytes, gold links."""

import base64
import io
import unicodedata
import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.table.numbers import name_head
from attnprobe.table.sequence import Ends, Maps, Rows, Side, group_tokens

#: Probabilities are packed as whole numbers of 1 / SCALE: in four decimals.
SCALE = 10_000
#: Most rows and columns of a small map.
SMALL = 32
#: Signs for blanks, which could not be seen or would break a line.
_BLANKS = {" ": "\u2423", "\n": "\u21b5", "\r": "\u240d", "\t": "\u21e5", "\xa0": "\u237d"}
#: Controls, what reorders or hides text, lone surrogates, breaks, what is assigned to nobody.
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


class Start(NamedTuple):
    """What a page shows first, and a graphic alone."""

    kind: str  # of attention
    layer: int  # its place among the layers of the kind
    head: int  # the number after the last head is the rollout
    draw: str  # "lines", "map" or "patches"
    words: bool  # whether whole words are shown
    special: bool  # whether special tokens are shown


def pack_layer(rows: Rows) -> str:
    """Pack the maps of a layer (head, query, key), all high bytes first, as only these compress well."""
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
    """Shrink maps (layer, head, row, column) of tokens shown, or patches, to ``most`` a side, by maxima."""
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
        queries, _ = select_tokens(maps.queries, words=words, special=special)
        keys, _ = select_tokens(maps.keys, words=words, special=special)
        rows = rows[:, :, queries][..., keys]
    for axis in (2, 3):
        length = rows.shape[axis]
        if length > most:
            rows = np.maximum.reduceat(rows, np.arange(most) * length // most, axis)
    return rows.astype(np.float32)


def find_query(maps: Maps) -> int | None:
    """Find the leading token of an image, from which patches are shown; None if all tokens are patches."""
    if maps.queries.grid is None or not maps.queries.special.any():
        return None
    return int(maps.queries.special.argmax())


def select_tokens(side: Side, *, words: bool, special: bool) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Select the tokens or words of a side that are shown; return their places and labels."""
    labels = side.word_labels if words else side.labels
    hidden = side.special_words if words else side.special
    places = np.flatnonzero(np.ones(len(labels), bool) if special else ~hidden)
    return places, tuple(labels[place] for place in places)


def make_visible(text: str) -> str:
    r"""Replace characters of a token that are invisible or steer a display by a sign or their code.

    >>> [make_visible(text) for text in ("late", " ", "a\nb", "\u202eevil", "\ud800\x00")]
    ['late', '␣', 'a↵b', '⟨202E⟩evil', '⟨D800⟩⟨0000⟩']
    """
    blank = bool(text) and not text.strip()

    def replace_character(character: str) -> str:
        if character in "\n\r\t" or (blank and character in _BLANKS):
            return _BLANKS[character]
        if not blank and (character in "\u200c\u200d" or unicodedata.category(character) not in _HIDDEN):
            return character
        return f"\u27e8{ord(character):04X}\u27e9"

    return "".join(map(replace_character, text)) or "\u2205"


def encode_image(pixels: NDArray[np.uint8]) -> str:
    """Write an image (height, width, 3) into a data URL, as JPEG, small enough for a page."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((512, 512))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=88)
    return make_address("image/jpeg", content.getvalue())


def make_address(kind: str, content: bytes) -> str:
    """Write a picture into a data URL."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _pack(content: NDArray[np.uint8]) -> str:
    # Level 6 is quick; 9 takes ten times as long for a tenth of the size.
    return base64.b64encode(zlib.compress(content.tobytes(), 6)).decode("ascii")


#: How the marks of links look in a picture.
EXPLANATION = (
    "Gold links are heavy where the head finds them, thin where it misses them, dashed where they are only "
    "possible."
)


class LinkMark(NamedTuple):
    """A gold link in a map: its rows and columns, each as the first and the one behind the last."""

    rows: Ends
    columns: Ends
    sure: bool
    hit: bool | None = None  # None for the rollout

    @property
    def name(self) -> str:
        """The kind of link, for a screen reader."""
        ending = {None: "", True: ", hit", False: ", missed"}[self.hit]
        return f"{'sure' if self.sure else 'possible'} link{ending}"


def place_marks(
    maps: Maps,
    queries: NDArray[np.int64],
    keys: NDArray[np.int64],
    *,
    words: bool,
    head: tuple[int, int] | None = None,
) -> list[LinkMark]:
    """Mark the gold links of a map whose ends are among tokens or words that ``select_tokens`` selected.

    ``head`` is the place of a layer and the number of a head, whose hits the marks show.
    """

    def find_ends(side: Side, ends: Ends, places: NDArray[np.int64]) -> Ends | None:
        named = np.arange(len(side)) if side.words is None or not words else side.words
        there = np.flatnonzero(np.isin(places, named[slice(*ends)]))
        return (int(there[0]), int(there[-1]) + 1) if there.size else None

    marks = []
    for number, (asker, answer, sure) in enumerate(maps.alignment.links if maps.alignment else ()):
        rows, columns = find_ends(maps.queries, asker, queries), find_ends(maps.keys, answer, keys)
        if rows and columns:
            hit = bool(maps.alignment.hits[head][number]) if maps.alignment and head else None
            marks.append(LinkMark(rows, columns, sure, hit))
    return marks


def state_alignment(maps: Maps, layer: int, head: int, *, several: bool) -> str:
    """State how many sure links a head hits, and its error rate, in each direction, the best one first."""
    assert maps.alignment is not None
    kind = f"{maps.kind.value.capitalize()} " if several else ""
    name = f"{kind}{name_head(maps.layers[layer], head)}"
    directions = [direction for direction in maps.alignment.directions if direction.sure[layer, head] > 0]
    directions.sort(key=lambda direction: (-direction.hits[layer, head], direction.rates[layer, head, 0]))
    findings = []
    for direction in directions:
        hits, sure, error = (
            direction.hits[layer, head],
            direction.sure[layer, head],
            direction.rates[layer, head, 0],
        )
        links = f"{hits:.0f} of {sure:.0f} sure {'link' if sure == 1 else 'links'}"
        findings.append(f"{links} (AER {error:.2f}) {direction.name}")
    return f"{name} finds {', '.join(findings)}" if findings else name


def explain_hits(maps: Maps) -> str:
    """Explain when a link is hit, and at which position of a word."""
    rule = "A link is hit if it has the largest attention of its word within the other text, and else missed."
    return f"{rule} Marks show hits where the decoder reads a word." if maps.kind is Kind.CROSS else rule


def pack_alignment(maps: Maps, *, several: bool) -> dict[str, Any] | None:
    """Pack the gold links of a kind of attention for a page, with what each head hits; None without any."""
    if maps.alignment is None:
        return None
    findings = [[""] * maps.kept.shape[1] for _ in maps.layers]
    for layer, head in np.argwhere(maps.kept).tolist():
        findings[layer][head] = state_alignment(maps, layer, head, several=several)
    return {
        "links": [[*asker, *answer, int(sure)] for asker, answer, sure in maps.alignment.links],
        "hits": maps.alignment.hits.astype(int).tolist(),
        "findings": findings,
        "explanation": explain_hits(maps),
    }
