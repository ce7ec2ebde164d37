"""Attention of one sentence: a page to look around in, or a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import UsageError
from attnprobe.reports.page import embed_bytes, embed_json, frame_page, render_page
from attnprobe.reports.picture import convert_svg
from attnprobe.reports.theme import ThemeName
from attnprobe.reports.view import packing
from attnprobe.reports.view.notes import list_notes
from attnprobe.reports.view.packing import SCALE, SMALL, Start, make_visible
from attnprobe.table.destination import Saveable
from attnprobe.table.sequence import Maps, SequenceAttention, Side
from attnprobe.table.table import HeadTable


def check_page_look(format: str, theme: str | None, width: int | None) -> None:
    """Raise UsageError if an html page is given a theme or width: it follows its reader's screen."""
    option = "--theme" if theme is not None else "--width" if width is not None else None
    if format == "html" and option is not None:
        raise UsageError(
            f"A page is light or dark, and as wide, as its reader's screen; leave out {option}, or write an "
            ".svg, .png or .pdf."
        )


@dataclass(frozen=True, repr=False)
class View(Saveable):
    """The attention of one sequence, as an interactive page or as a graphic.

    Attributes:
        start: What the page shows first, and what a graphic shows.
        chosen: Whether one head was chosen; a graphic without one shows all heads.
        notes: Tables of the model's heads, such as a census, to show beside each head.
    """

    endings: ClassVar[Sequence[str]] = ("html", "svg", "png", "pdf")

    sequence: SequenceAttention = field(repr=False)
    start: Start
    chosen: bool
    theme: ThemeName | None = None
    width: int | None = None
    notes: Sequence[HeadTable] = field(default=(), repr=False)

    @property
    def attention(self) -> dict[str, NDArray[Any]]:
        """Attention (layer, head, query, key) of each kind that the model has, in full precision."""
        return {maps.kind.value: maps.rows for maps in self.sequence.maps}

    @property
    def tokens(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The query tokens and the key tokens, for each kind of attention."""
        return {maps.kind.value: (maps.queries.labels, maps.keys.labels) for maps in self.sequence.maps}

    @cached_property
    def html(self) -> str:
        """The page: one file that needs no network."""
        return write_page(self.sequence, self.start, self.notes)

    @cached_property
    def svg(self) -> str:
        """The vector graphic: one head, or all heads small."""
        return self._draw(self.chosen)

    def render(self, format: str) -> bytes:
        """Render the page or the graphic; raises AttnprobeError if a page has a theme or a width."""
        check_page_look(format, self.theme, self.width)
        return self.html.encode() if format == "html" else convert_svg(self.svg, format)

    def _draw(self, chosen: bool) -> str:
        from attnprobe.reports.view.graphic import draw_view

        return draw_view(
            self.sequence, self.start, chosen=chosen, theme=self.theme or "light", width=self.width
        )

    def _repr_html_(self) -> str:
        page = write_page(self.sequence, self.start, self.notes, self._draw(True))  # for where no script runs
        return frame_page(page, "Attention of one sequence", 720)

    def _repr_png_(self) -> bytes:
        """Show the head in a notebook that shows no HTML, such as one that is not trusted."""
        return convert_svg(self._draw(True), "png")

    def __repr__(self) -> str:
        kinds = ", ".join(
            "{} {} x {} heads over {} tokens".format(maps.kind.value, *maps.rows.shape[:2], len(maps.keys))
            for maps in self.sequence.maps
        )
        return f"View({self.sequence.model!r}: {kinds})"


def write_page(
    sequence: SequenceAttention, start: Start, notes: Sequence[HeadTable] = (), still: str = ""
) -> str:
    """Write an html page, which ``view.js`` brings to life; without scripts, it shows the svg ``still``."""
    kinds = [maps.kind.value for maps in sequence.maps]
    several, kind = len(kinds) > 1, kinds.index(start.kind)
    sides = [side for maps in sequence.maps for side in (maps.queries, maps.keys)]
    grid = next((side.grid for side in sides if side.grid is not None), None)
    query = packing.find_query(sequence.maps[kind]) if start.draw == "patches" else None
    chosen = start._asdict() | {"kind": kind, "from": -1 if query is None else query, "to": -1}
    data = {
        "scale": SCALE,
        "kinds": [
            _pack_kind(maps)
            | {"gold": packing.pack_alignment(maps, several=several), "notes": list_notes(notes, maps)}
            for maps in sequence.maps
        ],
        "grid": None if grid is None else {"first": grid.first, "rows": grid.rows, "columns": grid.columns},
        "picture": None if sequence.picture is None else packing.encode_image(sequence.picture),
        "chosen": chosen,
    }
    scripts = {
        (number, layer): embed_bytes(f"layer-{number}-{layer}", packing.pack_layer(rows))
        for number, maps in enumerate(sequence.maps)
        for layer, rows in enumerate(packing.add_rollout(maps))
    }
    first = scripts.pop((kind, start.layer))  # the others lie behind the script, which need not wait for them
    return render_page(
        "view",
        model=make_visible(sequence.model),
        texts=[make_visible(text)[:4000] for text in sequence.texts],
        kinds=kinds,
        chosen=chosen,
        draws=["lines", "map", "text"] if grid is None else ["patches", "map"],
        grid=grid is not None,
        words=_has_words(sides),
        framed=grid is None and any(side.special.any() for side in sides),
        pooled=max(max(maps.rows.shape[2:]) for maps in sequence.maps) > SMALL,
        aligned=any(maps.alignment is not None for maps in sequence.maps),
        rollout=any(maps.rolled is not None for maps in sequence.maps),
        still=still and packing.make_address("image/svg+xml", still.encode()),
        version=version("attnprobe"),
        data=[embed_json("data", data), first],
        later=list(scripts.values()),
    )


def _pack_kind(maps: Maps) -> dict[str, Any]:
    """Pack a kind of attention for ``view.js``: its layers, tokens and small maps."""
    sides = [maps.queries, maps.keys]
    framed = any(side.special.any() for side in sides) and not any(side.special.all() for side in sides)
    small = {}
    for words in (False, True) if maps.keys.grid is None and _has_words(sides) else (False,):
        for special in (True, False) if maps.keys.grid is None and framed else (True,):
            shown = packing.shrink_maps(maps, words=words, special=special)
            name = f"{'words' if words else 'tokens'}{'' if special else '-plain'}"
            small[name] = {"size": shown.shape[2:], "packed": packing.pack_small_maps(shown)}
    return {
        "name": maps.kind.value,
        "layers": maps.layers,
        "heads": maps.rows.shape[1],
        "rollout": maps.rolled is not None,
        "removed": np.argwhere(~maps.kept).tolist(),
        "sides": [_pack_side(side) for side in sides],
        "same": maps.queries is maps.keys,
        "size": maps.rows.shape[2:],
        "small": small,
    }


def _has_words(sides: Sequence[Side]) -> bool:
    """Tell whether words are known, and one of them has more than one token."""
    known = all(side.words is not None for side in sides)
    return known and any(side.continues is not None and side.continues.any() for side in sides)


def _pack_side(side: Side) -> dict[str, Any]:
    """Pack the tokens of a side, and its words if they are known."""
    labels, names, words = (
        [make_visible(label)[:60] for label in part] for part in (side.labels, side.names, side.word_labels)
    )
    special = side.special.astype(int).tolist()
    packed = {"labels": labels, "names": names, "special": special, "words": None, "second": side.second}
    if side.words is None or side.continues is None:
        return packed
    numbers, continues = side.words.tolist(), side.continues.astype(int).tolist()
    hidden = side.special_words.astype(int).tolist()
    return packed | {"words": numbers, "wordLabels": words, "specialWords": hidden, "continues": continues}
