"""Kinds of tables: what a row of each is, and by which columns it is known.

A table is of the first kind whose columns it has, whether a command made it or it was read from a file. This
is the only place that tells; a terminal and pictures ask ``table.kind``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnprobe.table.cells import Column

#: The step of training that a checkpoint was saved at; and the step of removal where both are in a table.
STEP, PRUNING_STEP = "step", "pruning_step"
#: The group of documents that a row is about, where there is a row for each; and that of all together.
GROUP, ALL_GROUPS = "group", "all groups"
#: The criterion of a random order of heads.
RANDOM = "random"
#: The position of a token, where a head has a row for each.
POSITION = "position"
#: The columns that name the rule that a head is compared with; of two, the first says more.
RULES = ("baseline_rule", "baseline_offset")
#: What tokens of the text and of the image look at.
MODALITIES = tuple(f"{start}_to_{end}" for start in ("text", "image") for end in ("image", "text", "special"))
#: The columns that name a head, a pair of heads, and one within a layer.
HEAD = ("layer", "head")
PAIR, PAIR_IN_LAYER = ("layer_a", "head_a", "layer_b", "head_b"), ("layer", "head_a", "head_b")
#: How a measure ends that is there in domain and out of domain.
IN, OUT = "_in", "_out"
Data = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Kind:
    """What a table of a kind has."""

    keys: Collection[str] = ()  # columns that name a row
    columns: Collection[str] = ()  # what else it has
    #: The columns that a reader needs, beside those that name a row; without any, they are the headlines.
    essential: Collection[str] = ()
    #: What else tells it, by the roles of its columns and their cells.
    fits: Callable[[Mapping[str, str], Data], bool] = lambda roles, data: True


def _has_groups(roles: Mapping[str, str], data: Data) -> bool:
    return ALL_GROUPS in data[GROUP]


def _names_no_head(roles: Mapping[str, str], data: Data) -> bool:
    return "key" not in map(roles.get, HEAD) and bool({*RULES} & data.keys())


def _has_changes(roles: Mapping[str, str], data: Data) -> bool:
    return any(name == "jsd" or name.endswith("_delta") for name in data)


def _has_both_domains(roles: Mapping[str, str], data: Data) -> bool:
    return any(name.endswith(IN) and f"{name.removesuffix(IN)}{OUT}" in data for name in data)


def _has_whole_positions(roles: Mapping[str, str], data: Data) -> bool:
    return all(isinstance(cell, int) for cell in data[POSITION])


def _is_of_modalities(roles: Mapping[str, str], data: Data) -> bool:
    measures = [name for name, role in roles.items() if role in {"measure", "error"}]
    return all(name.startswith(("image_", "text_", "special_")) for name in measures)


_BEST = ("n", *HEAD, "accuracy", "accuracy_se", "baseline", "gain", "p_adjusted")
_PROBED = ("n", "accuracy", "accuracy_se", "best_head_accuracy", "baseline", "p_adjusted")
_RATES = ("aer", "precision", "recall", "baseline")
_INTERVAL = ("pearson", "pearson_low", "pearson_high", "spearman")
_CURVE = ("heads_removed", "score", "delta", "p_adjusted", "bound", "rank_among_random")
_ORDERS = ("spearman_last", "kendall_last", "spearman_previous", "kendall_previous")
_INTERACTION = ("proposed", "interaction")
_CHECK = ("status", "detail")
#: Every kind, the most special first.
KINDS: Mapping[str, Kind] = {
    "checks": Kind(columns=("check", *_CHECK), essential=_CHECK),
    "heads of groups": Kind((*HEAD, GROUP), fits=_has_groups),
    "groups": Kind((GROUP,), fits=_has_groups),
    "correlations": Kind(
        columns=_INTERVAL,
        essential=(*_INTERVAL, "pearson_true", "kendall", "reliability_in", "reliability_out"),
    ),
    "settling": Kind(columns=(STEP, "measure", "spearman_last", "kendall_previous"), essential=_ORDERS),
    "pruning of checkpoints": Kind(("criterion", "seed", STEP, PRUNING_STEP), ("score",), _CURVE),
    "pruning": Kind(("criterion", "seed", STEP), ("score",), _CURVE),
    "probes": Kind(columns=_PROBED, essential=(*_PROBED, "gain")),
    "best heads": Kind(columns=_BEST, essential=(*_BEST, "position", "baseline_rule"), fits=_names_no_head),
    "alignments": Kind(
        ("alignment",), ("aer", "precision", "recall", "p_adjusted"), (*_RATES, *HEAD, "gain", "p_adjusted")
    ),
    "aligning heads": Kind(HEAD, _RATES),
    "heads of checkpoints": Kind((STEP, *HEAD)),
    "layers of checkpoints": Kind((STEP, "layer")),
    "roles": Kind(HEAD, ("role",)),
    "change": Kind(HEAD, ("model_b",), fits=_has_changes),
    "two sides": Kind(HEAD, fits=_has_both_domains),
    "heads at positions": Kind((*HEAD, POSITION), fits=_has_whole_positions),
    "modalities": Kind(HEAD, MODALITIES, fits=_is_of_modalities),
    "heads": Kind(HEAD),
    "interactions": Kind(PAIR, _INTERACTION, (*_INTERACTION, "p_adjusted")),
    "all pairs": Kind(PAIR),
    "pairs in layers": Kind(PAIR_IN_LAYER),
    "layers": Kind(("layer",)),
    "other": Kind(),
}


def find_kind(columns: Sequence[Column], data: Data) -> str:
    """Tell the kind of a table from its columns: the first that has them."""
    roles = {column.name: column.role for column in columns}
    keys = {name for name, role in roles.items() if role == "key"}
    return next(
        name
        for name, kind in KINDS.items()
        if keys.issuperset(kind.keys) and data.keys() >= set(kind.columns) and kind.fits(roles, data)
    )
