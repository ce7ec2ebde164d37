"""The page of one sentence: all its attention, to look around in."""

from collections.abc import Sequence
from importlib.metadata import version
from itertools import product
from typing import Any

import numpy as np

from attnprobe.reports.page import bundle_scripts, embed_bytes, embed_json, read_asset, render_page
from attnprobe.reports.view.alignment import list_rates, pack_alignment
from attnprobe.reports.view.notes import list_notes
from attnprobe.reports.view.packing import (
    SCALE,
    SMALL,
    add_rollout,
    encode_image,
    encode_svg,
    find_query,
    make_visible,
    pack_layer,
    pack_small_maps,
    shrink_maps,
)
from attnprobe.reports.view.start import Start
from attnprobe.table.sequence import Maps, SequenceAttention, Side
from attnprobe.table.table import HeadTable

#: What the page does, in this order.
_SCRIPTS = ("unpack.js", "data.js", "draw.js", "reading.js", "heads.js", "save.js", "view.js")


def write_page(
    seen: SequenceAttention,
    start: Start,
    notes: Sequence[HeadTable] = (),
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
            _pack_kind(maps, number, sides)
            | {"gold": pack_alignment(maps, several=len(kinds) > 1)}
            | {"notes": list_rates(maps) + list_notes(notes, maps)}
            for number, maps in enumerate(seen.maps)
        ],
        "sides": [pack_side(side) for side in sides],
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
        texts=[make_visible(text)[:4000] for text in seen.texts],
        kinds=kinds,
        chosen=chosen,
        draws=["lines", "map", "text"] if grid is None else ["patches", "map"],
        grid=grid is not None,
        words=_has_words(sides),
        framed=grid is None and any(side.special.any() for side in sides),
        pooled=max(max(maps.rows.shape[2:]) for maps in seen.maps) > SMALL,
        aligned=any(maps.alignment is not None for maps in seen.maps),
        rollout=any(maps.rolled is not None for maps in seen.maps),
        still=still and encode_svg(still),
        version=version("attnprobe"),
        data=[embed_json("data", data), first],
        later=list(scripts.values()),
    )  # fmt: skip


def _pack_kind(maps: Maps, number: int, sides: list[Side]) -> dict[str, Any]:
    places = {id(side): place for place, side in enumerate(sides)}
    return {
        "name": maps.kind.value,
        "layers": list(maps.layers),
        "heads": maps.rows.shape[1],
        "rollout": maps.rolled is not None,
        "removed": np.argwhere(~maps.standing).tolist(),
        "queries": places[id(maps.queries)],
        "keys": places[id(maps.keys)],
        "size": list(maps.rows.shape[2:]),
        "small": _pack_small_sets(maps),
        "packed": [_name_layer(number, layer) for layer in range(len(maps.layers))],
    }


def _pack_small_sets(maps: Maps) -> dict[str, Any]:
    sides, image = [maps.queries, maps.keys], maps.keys.grid is not None
    framed = any(side.special.any() for side in sides) and not any(side.special.all() for side in sides)
    sets = {}
    units = ("tokens", "words") if not image and _has_words(sides) else ("tokens",)
    for unit, plain in product(units, ("", "-plain") if not image and framed else ("",)):
        small = shrink_maps(maps, words=unit == "words", special=not plain)
        sets[unit + plain] = {"size": list(small.shape[2:]), "packed": pack_small_maps(small)}
    return sets


def _has_words(sides: list[Side]) -> bool:
    """Tell whether words are known, and one of them has more than one token."""
    known = all(side.words is not None for side in sides)
    return known and any(side.continues is not None and side.continues.any() for side in sides)


def pack_side(side: Side) -> dict[str, Any]:
    """Pack the tokens of a side, for ``data.js``."""
    labels, names, word_labels = (
        [make_visible(label)[:60] for label in one] for one in (side.labels, side.names, side.word_labels)
    )
    special = side.special.astype(int).tolist()
    packed = {"labels": labels, "names": names, "special": special, "words": None, "second": side.second}
    if side.words is not None and side.continues is not None:
        packed |= {
            "words": side.words.tolist(),
            "wordLabels": word_labels,
            "specialWords": side.special_words.astype(int).tolist(),
            "continues": side.continues.astype(int).tolist(),
        }
    return packed


def _name_layer(kind: int, layer: int) -> str:
    return f"layer-{kind}-{layer}"
