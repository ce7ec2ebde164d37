"""Sentences with the attention of all heads, and the file of them beside the tables of a report."""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.reports.view import pack_layer, unpack_layer
from attnprobe.survey.tokens import Maps, SequenceAttention, Side

#: The name of the file.
FILE = "sentences.json"
#: By which its content is known.
_WHAT = "attnprobe sentences 1"
#: Most bytes of such a file, most sentences, most probabilities of a map: far beyond what a report writes.
_BYTES, _SENTENCES, _CELLS = 1 << 26, 12, 1 << 24


class Sentences(NamedTuple):
    """Sentences that heads are shown on."""

    seen: Sequence[SequenceAttention] = ()  # each with the attention of all heads
    chosen: str = ""  # how they were chosen, or why there are none
    model: str = ""  # the checkpoint, as the user named it
    data: str = ""  # the texts, as the user named them; empty where they have no name


def encode_sentences(sentences: Sentences) -> bytes:
    """Give the content of the file, probabilities in the four decimals of the page."""
    about = {
        "what": _WHAT,
        "model": sentences.model,
        "data": sentences.data,
        "chosen": sentences.chosen,
        "sentences": [
            {"model": one.model, "texts": list(one.texts), "maps": [_encode_maps(maps) for maps in one.maps]}
            for one in sentences.seen
        ],
    }
    return json.dumps(about, indent=1).encode()


def read_sentences(path: Path) -> Sentences:
    """Read such a file; raises AttnprobeError when it holds anything else."""
    try:
        if path.stat().st_size > _BYTES:
            raise ValueError("it is too large")
        return _decode(json.loads(path.read_bytes()))
    except OSError as error:
        raise AttnprobeError(f"{path} can't be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise AttnprobeError(
            f"{path} holds no sentences of a report, or is damaged; delete it, and the page does without."
        ) from error


def _encode_maps(maps: Maps) -> dict[str, Any]:
    layers, heads, queries, keys = maps.rows.shape
    return {
        "kind": maps.kind.value,
        "layers": list(maps.layers),
        "heads": heads,
        "queries": list(maps.queries.labels),
        "keys": list(maps.keys.labels),
        "special_queries": np.flatnonzero(maps.queries.special).tolist(),
        "special_keys": np.flatnonzero(maps.keys.special).tolist(),
        "rows": pack_layer(maps.rows.reshape(layers * heads, queries, keys)),
    }


def _decode(about: Any) -> Sentences:
    if not isinstance(about, dict) or about.get("what") != _WHAT:
        raise ValueError("it is something else")
    sequences = [
        SequenceAttention(
            _check_text(one["model"]),
            tuple(map(_check_text, _check_list(one["texts"], 3))),
            tuple(map(_decode_maps, _check_list(one["maps"], 3))),
        )
        for one in _check_list(about["sentences"], _SENTENCES)
    ]
    return Sentences(sequences, *(_check_text(about[name]) for name in ("chosen", "model", "data")))


def _decode_maps(about: Mapping[str, Any]) -> Maps:
    kind = Kind(about["kind"])
    layers = tuple(map(_check_number, _check_list(about["layers"], 10_000)))
    heads = _check_number(about["heads"])
    # Files of an earlier version do not say which tokens are special.
    queries, keys = (
        _decode_side(about[name], about.get(f"special_{name}", [])) for name in ("queries", "keys")
    )
    shape = len(layers), heads, len(queries), len(keys)
    if not 0 < np.prod(shape, dtype=object) <= _CELLS:
        raise ValueError("it has too many probabilities, or none")
    rows = unpack_layer(_check_text(about["rows"]), shape)
    return Maps(kind, layers, rows, queries, keys, np.ones(shape[:2], bool))


def _decode_side(about: Any, special: Any) -> Side:
    labels = tuple(map(_check_text, _check_list(about, 10_000)))
    named = np.zeros(len(labels), bool)
    for place in map(_check_number, _check_list(special, 10_000)):
        if place >= len(labels):
            raise ValueError("a token is said to be special that is not there")
        named[place] = True
    return Side(labels, labels, named)


def _check_list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError("it is no list, or too long")
    return value


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


def _check_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
        raise ValueError("it is no number of a layer, or of heads")
    return value
