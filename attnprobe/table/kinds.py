"""Kinds of tables: what a row of each is, by which columns it is known, and how it is drawn.

A table is of its kind from where it is made, or else, as a file that a stranger wrote, of the first kind that
has its columns. This is the only place that tells; a terminal and pictures ask ``table.kind``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attnprobe.table.column import Column

#: What a table can be drawn as, in the order in which ``--kind`` lists them.
PictureKind = Literal[
    "atlas", "roles", "change", "relations", "settling", "curves", "lines", "scatter", "matrix", "map",
    "clustermap", "heatmap", "positions", "depth", "intervals", "pairs", "probes", "groups",
    "modality", "alignments",
]  # fmt: skip
#: The picture that has clusters: a matrix in the order of a tree of heads.
CLUSTERMAP: Literal["clustermap"] = "clustermap"
TableKind = Literal[
    "checks", "heads of groups", "groups", "correlations", "settling", "pruning of checkpoints",
    "pruning", "probes", "best heads", "alignments", "aligning heads",
    "heads of checkpoints", "layers of checkpoints", "roles", "change", "two sides",
    "heads at positions", "modalities", "heads", "interactions", "all pairs",
    "pairs in layers", "layers", "other",
]  # fmt: skip
#: The step of training that a checkpoint was saved at; and the step of removal where both are in a table.
STEP, PRUNING_STEP = "step", "pruning_step"
#: The group of documents that a row is about, where there is a row for each.
GROUP = "group"
#: What the rows over all groups are called there.
ALL_GROUPS = "all groups"
#: The position of a token, where a head has a row for each.
POSITION = "position"
#: The columns that name the rule that a head is compared with; of two, the first says more.
RULES = ("baseline_rule", "baseline_offset")
#: What heads find, beside the best simple rule.
FOUND = ("n", "layer", "head", "accuracy", "accuracy_se", "baseline", "gain", "p_adjusted")
#: What all heads find together, beside the best of them.
PROBED = (
    "n",
    "accuracy",
    "accuracy_se",
    "best_head_accuracy",
    "baseline",
    "p_adjusted",
)
#: What tokens of the text and of the image look at.
MODALITIES = tuple(
    f"{asker}_to_{part}" for asker in ("text", "image") for part in ("image", "text", "special")
)
#: The columns that name a pair of heads, and one within a layer.
PAIR, PAIR_IN_LAYER = ("layer_a", "head_a", "layer_b", "head_b"), ("layer", "head_a", "head_b")
#: How a measure ends that is there in domain and out of domain.
IN, OUT = "_in", "_out"


Data = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Kind:
    """What is known of the tables of a kind."""

    row: str  # what a row is
    keys: Collection[str] = ()  # columns that name a row
    columns: Collection[str] = ()  # what else it has
    #: What it can be drawn as where its numbers allow it; first what is drawn by default.
    pictures: Sequence[PictureKind] = ()
    #: What else tells it, by its columns and their cells.
    fits: Callable[[Sequence[Column], Data], bool] = lambda columns, data: True


_HEAD = ("layer", "head")
_OF_HEADS: tuple[PictureKind, ...] = ("atlas", "heatmap", "scatter", "depth")
_CURVE = ("criterion", "seed", STEP)
_RATES = ("aer", "precision", "recall", "baseline")
#: Every kind, the most special first.
KINDS: Mapping[TableKind, Kind] = {
    "checks": Kind("a check of a checkpoint", (), ("check", "status", "detail")),
    "heads of groups": Kind(
        "a head in a group of documents", (*_HEAD, GROUP), (), ["groups", "heatmap"],
        lambda columns, data: ALL_GROUPS in data[GROUP],
    ),
    "groups": Kind(
        "anything in a group of documents", [GROUP], (), ["groups"],
        lambda columns, data: ALL_GROUPS in data[GROUP],
    ),
    "correlations": Kind(
        "a correlation over heads", (), ("pearson", "pearson_low", "pearson_high", "spearman"), ["intervals"]
    ),
    "settling": Kind(
        "a measure at a step of training", (), (STEP, "measure", "spearman_last", "kendall_previous"),
        ["settling"],
    ),
    "pruning of checkpoints": Kind(
        "a step of an order of heads, at a step of training", (*_CURVE, PRUNING_STEP), ["score"], ["curves"]
    ),
    "pruning": Kind("a step of an order in which heads are removed", _CURVE, ["score"], ["curves"]),
    "probes": Kind("a label with what all heads know of it together", (), PROBED, ["probes"]),
    "best heads": Kind(
        "a label with the head that finds it best", (), FOUND, ["relations"],
        lambda columns, data: not set(_HEAD) & list_keys(columns) and bool({*RULES} & data.keys()),
    ),
    "alignments": Kind(
        "an alignment of pairs of texts", ["alignment"], ("aer", "precision", "recall", "p_adjusted"),
        ["alignments"],
    ),
    "aligning heads": Kind("a head as an alignment", _HEAD, _RATES, _OF_HEADS[:2]),
    "heads of checkpoints": Kind(
        "a head at a step of training", (STEP, *_HEAD), (), ["lines", "heatmap", "scatter"],
        lambda columns, data: "seed" not in list_keys(columns),
    ),
    "layers of checkpoints": Kind(
        "a layer at a step of training", (STEP, "layer"), (), ["lines"],
        lambda columns, data: "seed" not in list_keys(columns),
    ),
    "roles": Kind(
        "a head with its role", _HEAD, ["role"], ["roles", *_OF_HEADS],
        lambda columns, data: not all(isinstance(cell, int | float) for cell in data["role"]),
    ),
    "change": Kind(
        "a head in two models", _HEAD, ["model_b"], ["change", *_OF_HEADS],
        lambda columns, data: any(name == "jsd" or name.endswith("_delta") for name in data),
    ),
    "two sides": Kind(
        "a head in domain and out of domain", _HEAD, (), ["scatter", "heatmap", "depth"],
        lambda columns, data: any(
            name.endswith(IN) and f"{name.removesuffix(IN)}{OUT}" in data for name in data
        ),
    ),
    "heads at positions": Kind(
        "a head at a position of a token", (*_HEAD, POSITION), (), ["positions"],
        lambda columns, data: all(isinstance(cell, int) for cell in data[POSITION]),
    ),
    "modalities": Kind(
        "a head, and whether it looks at image or text", _HEAD, MODALITIES, ["modality", *_OF_HEADS],
        lambda columns, data: all(
            column.name.startswith(("image_", "text_", "special_"))
            for column in columns
            if column.role in {"measure", "error"}
        ),
    ),
    "heads": Kind("a head", _HEAD, (), [*_OF_HEADS, "modality"]),
    "interactions": Kind(
        "a pair of heads with what both do beyond each", PAIR, ("proposed", "interaction"), ["pairs"]
    ),
    "all pairs": Kind("a pair of heads", PAIR, (), ["matrix", "map", "clustermap"]),
    "pairs in layers": Kind("a pair of heads of a layer", PAIR_IN_LAYER, (), ["matrix"]),
    "layers": Kind("a layer", ["layer"], (), ["depth"]),
    "other": Kind("anything"),
}  # fmt: skip


_STEP_OF_PRUNING = ("heads_removed", "score", "delta", "p_adjusted", "bound", "rank_among_random")
#: The columns that a reader needs, beside those that name a row; of other kinds they are the headlines.
ESSENTIAL: Mapping[TableKind, Collection[str]] = {
    "checks": ("status", "detail"),
    "correlations": (
        *("pearson", "pearson_low", "pearson_high", "spearman", "kendall"),
        *("reliability_in", "reliability_out"),
    ),
    "settling": ("spearman_last", "kendall_last", "spearman_previous", "kendall_previous"),
    "pruning of checkpoints": _STEP_OF_PRUNING,
    "pruning": _STEP_OF_PRUNING,
    "probes": (*PROBED, "gain"),
    "best heads": (*FOUND, "position", "baseline_rule"),
    "alignments": (*_RATES, "layer", "head", "gain", "p_adjusted"),
    "interactions": ("proposed", "interaction", "p_adjusted"),
}


def guess_kind(columns: Sequence[Column], data: Data) -> TableKind:
    """Tell the kind of a table from its columns: the first that has them.

    >>> keys = [Column("layer", role="key"), Column("head", role="key")]
    >>> guess_kind([*keys, Column("entropy")], {"layer": [0], "head": [0], "entropy": [0.5]})
    'heads'
    """
    return next(name for name in KINDS if is_of_kind(name, columns, data))


def is_of_kind(name: TableKind, columns: Sequence[Column], data: Data) -> bool:
    """Tell whether a table has what makes it one of a kind."""
    kind = KINDS[name]
    return (
        list_keys(columns) >= set(kind.keys) and data.keys() >= set(kind.columns) and kind.fits(columns, data)
    )


def list_keys(columns: Sequence[Column]) -> set[str]:
    return {column.name for column in columns if column.role == "key"}
