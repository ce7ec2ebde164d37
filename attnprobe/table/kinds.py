"""Kinds of tables, known by their columns: a table is of the first kind whose columns it has.

This holds for the result of a command as for a table that was read from a file.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnprobe.table.cells import Column

#: The training step of a checkpoint; and the name of the pruning step in a table that has both.
STEP, PRUNING_STEP = "step", "pruning_step"
#: The column of groups of documents, and the group of all documents together.
GROUP, ALL_GROUPS = "group", "all groups"
RANDOM = "random"  # the criterion of a random order of heads
POSITION = "position"  # of a token, in tables with a row for each head and position
#: Columns that name the simple rule that a head is compared with, the more precise one first.
RULES = ("baseline_rule", "baseline_offset")
#: Columns of how much tokens of text and image attend to text, image and special tokens.
MODALITIES = tuple(f"{start}_to_{end}" for start in ("text", "image") for end in ("image", "text", "special"))
#: The columns that name a head, a pair of heads, and one within a layer.
HEAD = ("layer", "head")
PAIR, PAIR_IN_LAYER = ("layer_a", "head_a", "layer_b", "head_b"), ("layer", "head_a", "head_b")
#: Endings of the columns of one measure in domain and out of domain.
IN, OUT = "_in", "_out"
Data = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Kind:
    """The columns by which a kind of table is known."""

    keys: Collection[str] = ()  # that name a row
    columns: Collection[str] = ()  # further ones
    #: What a reader needs beside the keys; the headlines if there are none.
    essential: Collection[str] = ()


_BEST = ("n", *HEAD, "accuracy", "accuracy_se", "baseline", "gain", "p_adjusted")
_PROBED = ("n", "accuracy", "accuracy_se", "best_head_accuracy", "baseline", "p_adjusted")
_RATES = ("aer", "precision", "recall", "baseline")
_INTERVAL = ("pearson", "pearson_low", "pearson_high", "spearman")
_CURVE = ("heads_removed", "score", "delta", "p_adjusted", "bound", "rank_among_random")
_ORDERS = ("spearman_last", "kendall_last", "spearman_previous", "kendall_previous")
#: Every kind, the most special first.
KINDS: Mapping[str, Kind] = {
    "checks": Kind(columns=("check", "status", "detail"), essential=("status", "detail")),
    "heads of groups": Kind((*HEAD, GROUP)),
    "groups": Kind((GROUP,)),
    "correlations": Kind(
        columns=_INTERVAL,
        essential=(*_INTERVAL, "pearson_true", "kendall", "reliability_in", "reliability_out"),
    ),
    "settling": Kind(columns=(STEP, "measure", "spearman_last", "kendall_previous"), essential=_ORDERS),
    "pruning of checkpoints": Kind(("criterion", "seed", STEP, PRUNING_STEP), ("score",), _CURVE),
    "pruning": Kind(("criterion", "seed", STEP), ("score",), _CURVE),
    "probes": Kind(columns=_PROBED, essential=(*_PROBED, "gain")),
    "best heads": Kind(columns=_BEST, essential=(*_BEST, "position", "baseline_rule")),
    "alignments": Kind(
        ("alignment",), ("aer", "precision", "recall", "p_adjusted"), (*_RATES, *HEAD, "gain", "p_adjusted")
    ),
    "aligning heads": Kind(HEAD, _RATES),
    "heads of checkpoints": Kind((STEP, *HEAD)),
    "layers of checkpoints": Kind((STEP, "layer")),
    "roles": Kind(HEAD, ("role",)),
    "change": Kind(HEAD, ("model_b",)),
    "two sides": Kind(HEAD),
    "heads at positions": Kind((*HEAD, POSITION)),
    "modalities": Kind(HEAD, MODALITIES),
    "heads": Kind(HEAD),
    "interactions": Kind(PAIR, ("proposed", "interaction"), ("proposed", "interaction", "p_adjusted")),
    "all pairs": Kind(PAIR),
    "pairs in layers": Kind(PAIR_IN_LAYER),
    "layers": Kind(("layer",)),
    "other": Kind(),
}


def find_kind(columns: Sequence[Column], data: Data) -> str:
    """Find the first kind whose columns a table has."""
    keys = {column.name for column in columns if column.role == "key"}
    return next(
        name
        for name, kind in KINDS.items()
        if keys.issuperset(kind.keys) and data.keys() >= set(kind.columns) and _fits(name, columns, data)
    )


def _fits(kind: str, columns: Sequence[Column], data: Data) -> bool:
    """Check the conditions of a kind that go beyond the names of its columns."""
    fits = True
    match kind:
        case "heads of groups" | "groups":
            fits = ALL_GROUPS in data[GROUP]
        case "best heads":
            named = {column.name for column in columns if column.role == "key"}
            fits = not named & {*HEAD} and bool({*RULES} & data.keys())
        case "change":
            fits = any(name == "jsd" or name.endswith("_delta") for name in data)
        case "two sides":
            fits = any(name.endswith(IN) and f"{name.removesuffix(IN)}{OUT}" in data for name in data)
        case "heads at positions":
            fits = all(isinstance(cell, int) for cell in data[POSITION])
        case "modalities":
            measures = [column.name for column in columns if column.role in {"measure", "error"}]
            fits = all(name.startswith(("image_", "text_", "special_")) for name in measures)
    return fits
