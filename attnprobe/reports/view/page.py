"""The page of a sequence: every head small, one of them large, tokens to choose from."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.page.document import asset, bytes_script, data_script, filled
from attnprobe.reports.view.labels import visible
from attnprobe.reports.view.packing import (
    SCALE,
    SMALL,
    all_maps,
    looking,
    packed_layer,
    packed_small,
    small_maps,
)
from attnprobe.survey.viewing.tokens import Maps, Seen, Side

#: Most characters of a token or a text that a page holds; a text of 256 tokens has fewer.
_LONGEST, _LONGEST_TEXT = 60, 4000
_ASSETS = "attnprobe.reports.view.assets"


@dataclass(frozen=True)
class Start:
    """What a page shows first.

    Attributes:
        kind: The kind of attention.
        layer: The place of the layer among those of its kind.
        head: The head; one more than there are is the rollout.
        draw: "lines", "map" or "patches".
        words: Whether whole words are shown.
        special: Whether special tokens are shown.
    """

    kind: str
    layer: int
    head: int
    draw: str
    words: bool
    special: bool


def page(seen: Seen, start: Start) -> str:
    """Write the page; see ``assets`` for what it does."""
    places = {one.kind.value: place for place, one in enumerate(seen.maps)}
    sides = _sides(seen)
    grid = next((one.keys.grid for one in seen.maps if one.keys.grid is not None), None)
    draws = ["patches", "map"] if grid is not None else ["lines", "map"]
    chosen = {
        "kind": places[start.kind], "layer": start.layer, "head": start.head, "draw": start.draw,
        "words": start.words, "special": start.special, "from": _first_query(seen, start), "to": -1,
    }  # fmt: skip
    held = {
        "scale": SCALE,
        "kinds": [_kind(one, place, sides) for place, one in enumerate(seen.maps)],
        "sides": [_side(side) for side in sides],
        "grid": None if grid is None else {"first": grid.first, "rows": grid.rows, "columns": grid.columns},
        "picture": _data_url(seen.picture),
        "chosen": chosen,
    }
    layers = {
        _layer_name(place, layer): rows
        for place, one in enumerate(seen.maps)
        for layer, rows in enumerate(all_maps(one))
    }
    first = _layer_name(chosen["kind"], start.layer)
    scripts = {name: bytes_script(name, packed_layer(rows)) for name, rows in layers.items()}
    return filled(
        _ASSETS,
        "view.html.jinja",
        asset(_ASSETS, "view.css"),
        [asset("attnprobe.reports.page", "unpack.js")]
        + [asset(_ASSETS, name) for name in ("data.js", "draw.js", "view.js")],
        model=visible(seen.model),
        texts=[visible(text)[:_LONGEST_TEXT] for text in seen.texts],
        kinds=[one.kind.value for one in seen.maps],
        chosen=chosen,
        draws=draws,
        grid=grid is not None,
        words=all(side.words is not None for side in sides) and any(map(_joins, sides)),
        framed=grid is None and any(side.special.any() for side in sides),
        small=_small(seen, grid is not None),
        note=_note(seen),
        version=version("attnprobe"),
        data=[data_script("data", held), scripts.pop(first)],
        later=list(scripts.values()),
    )


def _first_query(seen: Seen, start: Start) -> int:
    """Give the token of an image that the small maps are about; -1 for all of them."""
    if start.draw != "patches":
        return -1
    maps = seen.of(start.kind)
    return -1 if (found := looking(maps)) is None else found


def _sides(seen: Seen) -> list[Side]:
    """List the sides of all maps, each once."""
    found = {id(side): side for one in seen.maps for side in (one.queries, one.keys)}
    return list(found.values())


def _kind(maps: Maps, place: int, sides: list[Side]) -> dict[str, Any]:
    where = {id(side): number for number, side in enumerate(sides)}
    return {
        "name": maps.kind.value,
        "layers": list(maps.layers),
        "heads": maps.rows.shape[1],
        "rollout": maps.rolled is not None,
        "removed": np.argwhere(~maps.standing).tolist(),
        "queries": where[id(maps.queries)],
        "keys": where[id(maps.keys)],
        "size": list(maps.rows.shape[2:]),
        "small": _small_sets(maps),
        "packed": [_layer_name(place, layer) for layer in range(len(maps.layers))],
    }


def _small_sets(maps: Maps) -> dict[str, Any]:
    """Pack the small maps: of tokens or words, with special tokens or without; what is alike, once."""
    sides, image = (maps.queries, maps.keys), maps.keys.grid is not None
    framed = not image and any(side.special.any() for side in sides)
    left = not any(side.special.all() for side in sides)
    worded = not image and all(side.words is not None for side in sides) and any(map(_joins, sides))
    return {
        _small_name(words, special): _packed_small(small_maps(maps, words=words, special=special))
        for words in ((False, True) if worded else (False,))
        for special in ((True, False) if framed and left else (True,))
    }


def _joins(side: Side) -> bool:
    """Tell whether a word has more than one token."""
    return side.continues is not None and bool(side.continues.any())


def _small_name(words: bool, special: bool) -> str:
    return f"{'words' if words else 'tokens'}{'' if special else '-plain'}"


def _packed_small(rows: NDArray[np.float32]) -> dict[str, Any]:
    return {"size": list(rows.shape[2:]), "packed": packed_small(rows)}


def _side(side: Side) -> dict[str, Any]:
    found: dict[str, Any] = {
        "labels": [visible(label)[:_LONGEST] for label in side.labels],
        "names": [visible(name)[:_LONGEST] for name in side.names],
        "special": side.special.astype(int).tolist(),
        "words": None,
    }
    if side.words is not None and side.continues is not None:
        found |= {
            "words": side.words.tolist(),
            "wordLabels": [visible(label)[:_LONGEST] for label in side.word_labels],
            "specialWords": side.special_words.astype(int).tolist(),
            "continues": side.continues.astype(int).tolist(),
        }
    return found


def _layer_name(kind: int, layer: int) -> str:
    return f"layer-{kind}-{layer}"


def _small(seen: Seen, image: bool) -> str:
    if image:
        return (
            "Each small map is the image, as its first token that is no patch looks at it; the stronger a "
            "colour, the more, up to the most of that map. Choose a head, or walk with the arrow keys."
        )
    longest = max(max(one.rows.shape[2:]) for one in seen.maps)
    pooled = " Each cell is the most of the tokens it stands for." if longest > SMALL else ""
    return (
        f"From top to bottom: who attends; from left to right: to whom.{pooled} Choose a head, or walk with "
        "the arrow keys."
    )


def _note(seen: Seen) -> str:
    said = [
        "Attention is rounded to four decimals, as a share of all tokens; what is hidden is not shared out "
        "again. Colours follow the square root, so that little attention shows.",
        "Attention to a word is the sum over its tokens, attention from a word their mean (Clark et al. "
        "2019); of rounded numbers, so that the last of its three decimals may be off by one.",
    ]
    if any(one.rolled is not None for one in seen.maps):
        said.append(
            "Rollout multiplies the mean map of each layer, half of it the token itself, over all layers so "
            "far (Abnar and Zuidema 2020); it is a picture, no measure of a head."
        )
    if any(one.keys.grid is not None for one in seen.maps):
        said = [said[0], *said[2:]]
    return " ".join(said)


def _data_url(picture: "NDArray[np.uint8] | None") -> str | None:
    if picture is None:
        return None
    from attnprobe.reports.view.images import data_url

    return data_url(picture)
