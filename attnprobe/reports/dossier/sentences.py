"""The file of sentences beside the tables of a report: what heads look at, as the page shows it."""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.reports.view.packing import SCALE, packed_layer
from attnprobe.survey.viewing.tokens import Maps, Seen, Side

#: The name of the file.
FILE = "sentences.json"
#: By which its content is known.
_WHAT = "attnprobe sentences 1"
#: Most bytes of such a file, most sentences, most probabilities of a map: far beyond what a report writes.
_BYTES, _SENTENCES, _CELLS = 1 << 26, 12, 1 << 24


@dataclass(frozen=True)
class Watched:
    """Sentences that heads were watched on.

    Attributes:
        seen: Each with the attention of all heads.
        chosen: How they were chosen, or why there are none.
        model: The checkpoint, as the user named it.
        data: The texts, as the user named them; empty where they have no name.
    """

    seen: Sequence[Seen] = ()
    chosen: str = ""
    model: str = ""
    data: str = ""


def written(watched: Watched) -> bytes:
    """Write sentences down, probabilities in the four decimals of the page."""
    about = {
        "what": _WHAT,
        "model": watched.model,
        "data": watched.data,
        "chosen": watched.chosen,
        "sentences": [
            {"model": one.model, "texts": list(one.texts), "maps": [_map(maps) for maps in one.maps]}
            for one in watched.seen
        ],
    }
    return json.dumps(about, indent=1).encode()


def read_sentences(path: Path) -> Watched:
    """Read what ``written`` gave.

    Raises:
        AttnprobeError: When the file holds anything else.
    """
    try:
        if path.stat().st_size > _BYTES:
            raise ValueError("it is too large")
        return _read(json.loads(path.read_bytes()))
    except OSError as error:
        raise AttnprobeError(f"{path} can't be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise AttnprobeError(
            f"{path} holds no sentences of a report, or is damaged; delete it, and the page does without."
        ) from error


def _map(maps: Maps) -> dict[str, Any]:
    layers, heads, queries, keys = maps.rows.shape
    return {
        "kind": maps.kind.value,
        "layers": list(maps.layers),
        "heads": heads,
        "queries": list(maps.queries.labels),
        "keys": list(maps.keys.labels),
        "rows": packed_layer(maps.rows.reshape(layers * heads, queries, keys)),
    }


def _read(about: Any) -> Watched:
    if not isinstance(about, dict) or about.get("what") != _WHAT:
        raise ValueError("it is something else")
    sentences = _list(about["sentences"], _SENTENCES)
    return Watched(
        [
            Seen(
                _text(one["model"]),
                tuple(map(_text, _list(one["texts"], 3))),
                tuple(map(_maps, _list(one["maps"], 3))),
            )
            for one in sentences
        ],
        *(_text(about[name]) for name in ("chosen", "model", "data")),
    )


def _maps(about: Mapping[str, Any]) -> Maps:
    kind = Kind(about["kind"])
    layers = tuple(_number(layer) for layer in _list(about["layers"], 10_000))
    heads = _number(about["heads"])
    queries, keys = (_side(about[name]) for name in ("queries", "keys"))
    shape = len(layers), heads, len(queries), len(keys)
    if not 0 < np.prod(shape, dtype=object) <= _CELLS:
        raise ValueError("it has too many probabilities, or none")
    return Maps(kind, layers, _rows(about["rows"], shape), queries, keys, np.ones(shape[:2], bool))


def _rows(packed: Any, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Undo ``packed_layer``; what is packed is never larger than the maps it stands for."""
    size = 2 * int(np.prod(shape))
    try:
        content = base64.b64decode(_text(packed), validate=True)
    except binascii.Error as error:
        raise ValueError("it is no base64") from error
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(content, size)
    if len(found) != size or unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("it has other probabilities than tokens")
    high, low = np.frombuffer(found, np.uint8).astype(np.uint16).reshape(2, *shape)
    parts = high * 256 + low
    if parts.max() > SCALE:
        raise ValueError("a probability is at most 1")
    return (parts / SCALE).astype(np.float32)


def _side(labels: Any) -> Side:
    found = tuple(map(_text, _list(labels, 10_000)))
    return Side(found, found, np.zeros(len(found), bool))


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError("it is no list, or too long")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
        raise ValueError("it is no number of a layer, or of heads")
    return value
