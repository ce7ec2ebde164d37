"""Kinds of tables: what a row of each is, and by which columns it is known.

A table is of the first kind whose columns it has, whether a command made it or it was read from a file. This
is the only place that tells; a terminal and pictures ask ``table.kind``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attnprobe.table.column import Column

TableKind = Literal[
    "checks",
    "heads of groups",
    "groups",
    "correlations",
    "settling",
    "pruning of checkpoints",
    "pruning",
    "probes",
    "best heads",
    "alignments",
    "aligning heads",
    "heads of checkpoints",
    "layers of checkpoints",
    "roles",
    "change",
    "two sides",
    "heads at positions",
    "modalities",
    "heads",
    "interactions",
    "all pairs",
    "pairs in layers",
    "layers",
    "other",
]
#: The step of training that a checkpoint was saved at; and the step of removal where both are in a table.
STEP, PRUNING_STEP = "step", "pruning_step"
#: The group of documents that a row is about, where there is a row for each.
GROUP = "group"
#: What the rows over all groups are called there.
ALL_GROUPS = "all groups"
#: The criterion of a random order of heads.
RANDOM = "random"
#: The position of a token, where a head has a row for each.
POSITION = "position"
#: The columns that name the rule that a head is compared with; of two, the first says more.
RULES = ("baseline_rule", "baseline_offset")
#: What heads find, beside the best simple rule.
FOUND = ("n", "layer", "head", "accuracy", "accuracy_se", "baseline", "gain", "p_adjusted")
#: What all heads find together, beside the best of them.
PROBED = ("n", "accuracy", "accuracy_se", "best_head_accuracy", "baseline", "p_adjusted")
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
    """What a table of a kind has."""

    keys: Collection[str] = ()  # columns that name a row
    columns: Collection[str] = ()  # what else it has
    #: What else tells it, by its columns and their cells.
    fits: Callable[[Sequence[Column], Data], bool] = lambda columns, data: True


def list_keys(columns: Sequence[Column]) -> set[str]:
    return {column.name for column in columns if column.role == "key"}


def _has_all_groups(columns: Sequence[Column], data: Data) -> bool:
    return ALL_GROUPS in data[GROUP]


def _has_no_seed(columns: Sequence[Column], data: Data) -> bool:
    return "seed" not in list_keys(columns)


def _names_no_head(columns: Sequence[Column], data: Data) -> bool:
    return not set(HEAD) & list_keys(columns) and bool({*RULES} & data.keys())


def _has_roles_in_words(columns: Sequence[Column], data: Data) -> bool:
    return not all(isinstance(cell, int | float) for cell in data["role"])


def _has_changes(columns: Sequence[Column], data: Data) -> bool:
    return any(name == "jsd" or name.endswith("_delta") for name in data)


def _has_both_domains(columns: Sequence[Column], data: Data) -> bool:
    return any(name.endswith(IN) and f"{name.removesuffix(IN)}{OUT}" in data for name in data)


def _has_whole_positions(columns: Sequence[Column], data: Data) -> bool:
    return all(isinstance(cell, int) for cell in data[POSITION])


def _is_of_modalities(columns: Sequence[Column], data: Data) -> bool:
    measures = [column.name for column in columns if column.role in {"measure", "error"}]
    return all(name.startswith(("image_", "text_", "special_")) for name in measures)


HEAD = ("layer", "head")
_CURVE = ("criterion", "seed", STEP)
_RATES = ("aer", "precision", "recall", "baseline")
#: Every kind, the most special first.
KINDS: Mapping[TableKind, Kind] = {
    "checks": Kind(columns=("check", "status", "detail")),
    "heads of groups": Kind((*HEAD, GROUP), fits=_has_all_groups),
    "groups": Kind((GROUP,), fits=_has_all_groups),
    "correlations": Kind(columns=("pearson", "pearson_low", "pearson_high", "spearman")),
    "settling": Kind(columns=(STEP, "measure", "spearman_last", "kendall_previous")),
    "pruning of checkpoints": Kind((*_CURVE, PRUNING_STEP), ("score",)),
    "pruning": Kind(_CURVE, ("score",)),
    "probes": Kind(columns=PROBED),
    "best heads": Kind(columns=FOUND, fits=_names_no_head),
    "alignments": Kind(("alignment",), ("aer", "precision", "recall", "p_adjusted")),
    "aligning heads": Kind(HEAD, _RATES),
    "heads of checkpoints": Kind((STEP, *HEAD), fits=_has_no_seed),
    "layers of checkpoints": Kind((STEP, "layer"), fits=_has_no_seed),
    "roles": Kind(HEAD, ("role",), _has_roles_in_words),
    "change": Kind(HEAD, ("model_b",), _has_changes),
    "two sides": Kind(HEAD, fits=_has_both_domains),
    "heads at positions": Kind((*HEAD, POSITION), fits=_has_whole_positions),
    "modalities": Kind(HEAD, MODALITIES, _is_of_modalities),
    "heads": Kind(HEAD),
    "interactions": Kind(PAIR, ("proposed", "interaction")),
    "all pairs": Kind(PAIR),
    "pairs in layers": Kind(PAIR_IN_LAYER),
    "layers": Kind(("layer",)),
    "other": Kind(),
}
_STEP_OF_PRUNING = ("heads_removed", "score", "delta", "p_adjusted", "bound", "rank_among_random")
#: The columns that a reader needs, beside those that name a row; of other kinds they are the headlines.
ESSENTIAL: Mapping[TableKind, Collection[str]] = {
    "checks": ("status", "detail"),
    "correlations": (
        *("pearson", "pearson_low", "pearson_high", "pearson_true", "spearman", "kendall"),
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


def find_kind(columns: Sequence[Column], data: Data) -> TableKind:
    """Tell the kind of a table from its columns: the first that has them.

    >>> keys = [Column("layer", role="key"), Column("head", role="key")]
    >>> find_kind([*keys, Column("entropy")], {"layer": [0], "head": [0], "entropy": [0.5]})
    'heads'
    """
    keys = list_keys(columns)
    return next(
        name
        for name, kind in KINDS.items()
        if keys.issuperset(kind.keys) and data.keys() >= set(kind.columns) and kind.fits(columns, data)
    )
