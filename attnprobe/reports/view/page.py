"""The page of one sentence: all its attention, to look around in."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from attnprobe.reports.page import bundle_scripts, embed_bytes, embed_json, read_asset, render_page
from attnprobe.reports.view.alignment import pack_alignment
from attnprobe.reports.view.notes import list_notes
from attnprobe.reports.view.packing import (
    SCALE,
    SMALL,
    Start,
    add_rollout,
    encode_image,
    find_query,
    make_address,
    make_visible,
    pack_layer,
    pack_small_maps,
    shrink_maps,
)
from attnprobe.table.sequence import Maps, SequenceAttention, Side
from attnprobe.table.table import HeadTable


def write_page(
    seen: SequenceAttention, start: Start, notes: Sequence[HeadTable] = (), still: str = ""
) -> str:
    """Write the page; see ``view.js`` for what it does. Without scripts, it shows the graphic ``still``."""
    kinds = [maps.kind.value for maps in seen.maps]
    several, kind = len(kinds) > 1, kinds.index(start.kind)
    sides = [side for maps in seen.maps for side in (maps.queries, maps.keys)]
    grid = next((side.grid for side in sides if side.grid is not None), None)
    query = find_query(seen.maps[kind]) if start.draw == "patches" else None
    chosen = start._asdict() | {"kind": kind, "from": -1 if query is None else query, "to": -1}
    data = {
        "scale": SCALE,
        "kinds": [
            _pack_kind(maps, number)
            | {"gold": pack_alignment(maps, several=several), "notes": list_notes(notes, maps)}
            for number, maps in enumerate(seen.maps)
        ],
        "grid": None if grid is None else {"first": grid.first, "rows": grid.rows, "columns": grid.columns},
        "picture": None if seen.picture is None else encode_image(seen.picture),
        "chosen": chosen,
    }
    scripts = {
        (number, layer): embed_bytes(_name_layer(number, layer), pack_layer(rows))
        for number, maps in enumerate(seen.maps)
        for layer, rows in enumerate(add_rollout(maps))
    }
    first = scripts.pop((kind, start.layer))  # the others lie behind the script, which need not wait for them
    return render_page(
        "view.html.jinja",
        [read_asset("view.css")],
        [bundle_scripts("common.js", "view.js")],
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
        still=still and make_address("image/svg+xml", still.encode()),
        version=version("attnprobe"),
        data=[embed_json("data", data), first],
        later=list(scripts.values()),
    )


def _pack_kind(maps: Maps, number: int) -> dict[str, Any]:
    sides = [maps.queries, maps.keys]
    framed = any(side.special.any() for side in sides) and not any(side.special.all() for side in sides)
    small = {}
    for words in (False, True) if maps.keys.grid is None and _has_words(sides) else (False,):
        for special in (True, False) if maps.keys.grid is None and framed else (True,):
            shown = shrink_maps(maps, words=words, special=special)
            name = f"{'words' if words else 'tokens'}{'' if special else '-plain'}"
            small[name] = {"size": shown.shape[2:], "packed": pack_small_maps(shown)}
    return {
        "name": maps.kind.value,
        "layers": maps.layers,
        "heads": maps.rows.shape[1],
        "rollout": maps.rolled is not None,
        "removed": np.argwhere(~maps.standing).tolist(),
        "sides": [_pack_side(side) for side in sides],
        "same": maps.queries is maps.keys,
        "size": maps.rows.shape[2:],
        "small": small,
        "packed": [_name_layer(number, layer) for layer in range(len(maps.layers))],
    }


def _has_words(sides: Sequence[Side]) -> bool:
    """Tell whether words are known, and one of them has more than one token."""
    known = all(side.words is not None for side in sides)
    return known and any(side.continues is not None and side.continues.any() for side in sides)


def _pack_side(side: Side) -> dict[str, Any]:
    """Pack the tokens of a side, and its words if they are known."""
    labels, names, word_labels = (
        [make_visible(label)[:60] for label in part] for part in (side.labels, side.names, side.word_labels)
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
