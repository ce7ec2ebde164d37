"""A table of every kind that has a picture, with numbers that are told apart by their last digit."""

import math
from dataclasses import replace

import numpy as np

from attnprobe.table.naming import ROLE_MARKS, list_offsets
from attnprobe.table.table import Column, HeadTable

DRAW = np.random.default_rng(11)
LAYERS, HEADS = 3, 4


def table(title, keys, **columns):
    """Make a table: keys as given; ``_se`` is an error, ``n`` a count, text is text, all else a measure."""
    described = [Column(name, role="key") for name in keys]
    data = {name: list(cells) for name, cells in keys.items()}
    for name, given in columns.items():
        cells = list(given)
        words = any(isinstance(cell, str) for cell in cells)
        role = "text" if words else "error" if name.endswith("_se") else "count" if name == "n" else "measure"
        described.append(Column(name, "share" if role == "measure" else "", role))
        data[name] = cells
    return HeadTable(title, described, data)


def named(rows, model="m", dataset="d"):
    return {"model": [model] * rows, "dataset": [dataset] * rows}


def places(layers=LAYERS, heads=HEADS):
    layer, head = np.divmod(np.arange(layers * heads), heads)
    return {"layer": layer.tolist(), "head": head.tolist()}


def numbers(rows, low=0.0, high=1.0):
    return DRAW.uniform(low, high, rows).tolist()


def of_heads(*measures, model="m", dataset="d", layers=LAYERS, heads=HEADS, low=0.0):
    rows = layers * heads
    columns = {"n": [40] * rows}
    for measure in measures:
        columns |= {measure: numbers(rows, low), f"{measure}_se": numbers(rows, 0.0, 0.1)}
    return table("heads", {**named(rows, model, dataset), **places(layers, heads)}, **columns)


def all_pairs(layers=LAYERS, heads=HEADS):
    points = DRAW.normal(size=(layers * heads, 5))
    one, other = np.triu_indices(layers * heads, 1)
    jsd = 0.01 * np.square(points[one] - points[other]).sum(1)
    keys = {
        "layer_a": (one // heads).tolist(),
        "head_a": (one % heads).tolist(),
        "layer_b": (other // heads).tolist(),
        "head_b": (other % heads).tolist(),
    }
    return table("distance between heads", {**named(len(one)), **keys}, n=[9] * len(one), jsd=jsd.tolist())


def within_layers(layers=LAYERS, heads=HEADS):
    every = all_pairs(layers, heads)
    rows = [row for row in range(len(every)) if every.data["layer_a"][row] == every.data["layer_b"][row]]
    data = {name: [cells[row] for row in rows] for name, cells in every.data.items()}
    return HeadTable(every.title, every.columns, data)


def pruning(model="m"):
    rows = [
        (name, seed, step)
        for name, seed in (("gradient", None), ("random", 1), ("random", 2))
        for step in range(5)
    ]
    keys = {
        **named(len(rows), model),
        "criterion": [row[0] for row in rows],
        "seed": [row[1] for row in rows],
        "step": [row[2] for row in rows],
        "share_removed": [row[2] / 4 for row in rows],
        "metric": ["accuracy"] * len(rows),
    }
    errors = [0.01 if row[0] == "gradient" else None for row in rows]
    return table(
        "score while heads are removed", keys, n=[50] * len(rows), score=numbers(len(rows)), score_se=errors
    )


def over_training(measure="entropy", layers=LAYERS, heads=HEADS):
    rows = [
        (step, layer, head) for step in (0, 500, 8000) for layer in range(layers) for head in range(heads)
    ]
    keys = {
        "model": [f"checkpoint-{row[0]}" for row in rows],
        "dataset": ["d"] * len(rows),
        **{name: [row[place] for row in rows] for place, name in enumerate(("step", "layer", "head"))},
    }
    return table(
        "over training", keys, **{measure: numbers(len(rows)), f"{measure}_se": numbers(len(rows), 0, 0.1)}
    )


def orders():
    steps = [0, 10, 20]
    names = ("spearman_last", "kendall_last", "spearman_previous", "kendall_previous")
    values = {name: numbers(3, -0.2) for name in names}
    keys = {"model": ["a", "b", "c"], "dataset": ["d"] * 3, "step": steps, "measure": ["entropy"] * 3}
    found = table(
        "how the order of heads settles", keys, heads_last=[12] * 3, heads_previous=[0, 12, 12], **values
    )
    found.data["spearman_previous"][0] = None
    return found


def found(layers=3, heads=4):
    labels = [
        (label, side)
        for label in ("det", "nsubj", "amod")
        for side in ("dependent_to_head", "head_to_dependent")
    ]
    keys = {
        **named(6),
        "relation": [label for label, _ in labels],
        "direction": [side for _, side in labels],
    }
    return table(
        "syntax", keys, n=[30] * 6, layer=[row % layers for row in (0, 1, 2, 0, 1, -1)],
        head=[row % heads for row in (3, 2, 1, 0, 1, -2)], accuracy=numbers(6),
        accuracy_se=numbers(6, 0, 0.05), baseline=numbers(6), baseline_offset=[1, -1, 1, -1, 2, -2],
        gain=numbers(6, -0.1), p=numbers(6), p_adjusted=[0.001, 0.2, 0.04, 0.5, 0.6, 0.01],
    )  # fmt: skip


def roles(layers=LAYERS, heads=HEADS):
    rows = layers * heads
    words = ["previous", "broad", "mixed", "syntactic: det", "offset +2", "mixed"] * rows
    return table(
        "roles", {**named(rows), **places(layers, heads)}, role=words[:rows], measure=["x"] * rows,
        value=numbers(rows), value_se=numbers(rows, 0, 0.1), threshold=[0.5] * rows,
        also=(["", "next"] * rows)[:rows],
    )  # fmt: skip


def change(layers=LAYERS, heads=HEADS):
    rows = layers * heads
    keys = {**named(rows, "before"), "model_b": ["after"] * rows, **places(layers, heads)}
    columns = {"jsd": numbers(rows), "jsd_se": numbers(rows, 0, 0.01)}
    for place, name in enumerate(("entropy", "previous", "next", "self", "first", "other", "separator")):
        columns |= {f"{name}_{side}": numbers(rows) for side in "ab"}
        columns |= {f"{name}_delta": numbers(rows, -1), f"{name}_delta_se": numbers(rows, 0.1, 0.2)}
        columns[f"{name}_p_adjusted"] = ([0.001] * place + [0.5] * rows)[:rows]
    found = table("before and after", keys, **columns)
    described = [
        replace(one, title=f"change of attention to the {one.name.removesuffix('_delta')} token")
        if one.name.endswith("_delta")
        else one
        for one in found.columns
    ]
    return HeadTable(found.title, described, found.data)


def correlated():
    rows = 12
    return table(
        "heads by disagreement", {**named(rows), "place": range(rows), **places()},
        importance_in=numbers(rows), importance_out=numbers(rows), disagreement=numbers(rows, -2, 2),
    )  # fmt: skip


def correlation():
    columns = {name: [0.5] for name in ("pearson", "spearman", "kendall")}
    return table("correlation", named(1), **columns, pearson_low=[0.25], pearson_high=[0.75])


def by_group(layers=2, heads=2):
    groups, size = ["all groups", "news", "</script>", "=cmd()"], layers * heads
    keys = {**named(4 * size), "group": [name for name in groups for _ in range(size)]}
    keys |= {name: cells * 4 for name, cells in places(layers, heads).items()}
    tests = {
        f"entropy_{name}": [*numbers(size, 0, 1), *[None] * 3 * size] for name in ("q", "q_p", "q_p_adjusted")
    }
    some = min(4, size)
    tests["entropy_q_p_adjusted"][:some] = [0.01, None, 0.5, 0.9][:some]
    columns = {"entropy": numbers(4 * size), "entropy_se": numbers(4 * size, 0.1, 0.2), **tests}
    return table("entropy of heads, by group", keys, n=[9] * 4 * size, **columns)


def by_layer():
    return table(
        "by layer",
        {**named(3), "layer": [0, 1, 2]},
        n=[9] * 3,
        cancellation=numbers(3),
        cancellation_se=numbers(3, 0, 0.1),
    )


def interactions(layers=3, heads=4):
    last = {"layer_b": [1, 1, layers - 1], "head_b": [1, 0, heads - 1]}
    keys = {
        **named(3),
        "objective": ["masked-lm"] * 3,
        **{"layer_a": [0, 0, 1], "head_a": [0, 1, 0], **last},
    }
    measures = {
        "proposed": [0.3, -0.2, 0.1],
        "interaction": [0.4, -0.3, 0.01],
        "interaction_se": [0.05, 0.06, 0.05],
        "p": [0.001, 0.002, 0.8],
        "p_adjusted": [0.003, 0.004, 0.8],
    }
    return table("interactions of heads", keys, **measures)


def probes():
    measures = {
        "n": [300, 120, 40],
        "accuracy": [0.61, 0.8, None],
        "accuracy_se": [0.01, 0.02, None],
        "best_head_accuracy": [0.4, 0.79, 0.3],
        "p_adjusted": [0.001, 0.4, 0.9],
        "baseline": [0.3, 0.5, 0.2],
        "control": [0.1, 0.2, 0.15],
        "bits": [2.5, 1.25, 4.5],
        "bits_uniform": [4.25, 4.5, 4.0],
    }
    found = table("probe", {**named(3), "relation": ["all", "det", "obj"]}, **measures)
    texts = [Column(name, role="text") for name in ("baseline_rule",)]
    places = [Column(name, role="count") for name in ("layer", "head")]
    data = {
        **found.data,
        "baseline_rule": ["offset +1", "offset -1", None],
        "layer": [1, 0, 2],
        "head": [3, 0, 1],
    }
    return HeadTable(found.title, [*found.columns, *texts, *places], data)


def at_positions(tokens=("[CLS]", "the", None, "ran"), layers=LAYERS, heads=HEADS, dataset="d"):
    """Make a table of heads at positions; of the third one, no token is usual."""
    rows = layers * heads * len(tokens)
    layer, head, position = (part.ravel() for part in np.indices((layers, heads, len(tokens))))
    keys = {"layer": layer.tolist(), "head": head.tolist(), "position": position.tolist()}
    p = [0.01 if row % 5 == 0 else 0.5 for row in range(rows)]
    found = table(
        "patching of heads at each position", {**named(rows, dataset=dataset), **keys},
        token=[tokens[place] or "" for place in position.tolist()],
        n=[40] * rows, effect=numbers(rows, -1.0), effect_se=numbers(rows, 0.0, 0.1), p_adjusted=p,
    )  # fmt: skip
    found.data["token"][:] = [tokens[place] for place in position.tolist()]
    return found


def modalities(layers=LAYERS, heads=HEADS):
    """Make a table of what text and image look at; three shares of a head add up to 1."""
    rows, columns = layers * heads, {"n": [9] * (layers * heads)}
    for asker in ("text", "image"):
        shares = DRAW.dirichlet((2, 2, 1), rows).T
        for part, values in zip(("image", "text", "special"), shares, strict=True):
            columns |= {f"{asker}_to_{part}": values.tolist(), f"{asker}_to_{part}_se": numbers(rows, 0, 0.1)}
    return table("attention to image and text", {**named(rows), **places(layers, heads)}, **columns)


def alignments():
    keys = {**named(3), "alignment": ["head", "layer mean", "union"], "direction": ["target_to_source"] * 3}
    return table(
        "links: the alignments with the fewest errors", keys, n=[40] * 3, aer=[0.3, 0.5, None],
        aer_se=[0.01, 0.02, None], precision=numbers(3), recall=numbers(3), baseline=[0.6, 0.52, None],
        p_adjusted=[0.001, 0.3, None],
    )  # fmt: skip


def profiles(layers=LAYERS, heads=HEADS, *, patches=False, causal=False, roles=True):
    """Give heads with attention by offset: a bump somewhere, as wide as it comes."""
    rows = layers * heads
    names = [name for name, _ in list_offsets(patches=patches)]
    columns = {"n": [40] * rows, "entropy": numbers(rows), "entropy_normalized": numbers(rows)}
    centre, width = DRAW.integers(3, len(names) - 3, rows), DRAW.uniform(0.5, 9, rows)
    for place, name in enumerate(names):
        bump = np.exp(-np.square((place - centre) / width)) / (1 + width)
        ahead = causal and (name == "after" or (name.isdigit() and int(name) > 0))
        cells = [math.nan] * rows if ahead else np.clip(bump + DRAW.uniform(0, 0.02, rows), 0, 1).tolist()
        columns |= {f"profile_{name}": cells, f"profile_{name}_se": [0.01] * rows}
    if roles:
        words = [*ROLE_MARKS, "syntactic: det", "offset +2"]
        columns |= {
            "role": [words[row % len(words)] for row in range(rows)],
            "value": numbers(rows),
            "value_se": [0.01] * rows,
        }
    return table("census of heads", {**named(rows), **places(layers, heads)}, **columns)


#: The picture that each table has by nature, and a column of it that is drawn.
NATURAL = {
    "atlas": (profiles, "profile_-1"),
    "heatmap": (lambda: of_heads("entropy"), "entropy"),
    "positions": (at_positions, "effect"),
    "roles": (roles, "value"),
    "change": (change, "jsd"),
    "relations": (found, "accuracy"),
    "settling": (orders, "spearman_last"),
    "curves": (pruning, "score"),
    "lines": (over_training, "entropy"),
    "scatter": (correlated, "importance_in"),
    "matrix": (within_layers, "jsd"),
    "map": (all_pairs, "jsd"),
    "depth": (by_layer, "cancellation"),
    "intervals": (correlation, "pearson"),
    "pairs": (interactions, "interaction"),
    "probes": (probes, "accuracy"),
    "groups": (by_group, "entropy"),
    "modality": (modalities, "text_to_image"),
    "alignments": (alignments, "aer"),
}
