"""A table of every kind that has a picture, with random numbers; and what strings can do to a page."""

import math

import numpy as np

from attnprobe.table.naming import ROLE_MARKS, list_offsets
from attnprobe.table.table import Column, HeadTable

DRAW = np.random.default_rng(11)
LAYERS, HEADS = 3, 4
#: Strings that would run, be fetched, end what they stand in, be parts of an expression, or turn text around.
HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "datum['x'] + alert(3)",
    'https://example.org/x.png"', "'];alert(4)//", "user\u202egnp.exe \u2066x\u2069", "\x1b[31mred\x00",
    "{{ 7 * 7 }}${alert(5)}", "\\", '"><svg onload=alert(6)>', "javascript:alert(7)", "<!--<script>",
    "<style>@import 'https://example.org/x.css';</style>",
]  # fmt: skip


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
    first, second = np.triu_indices(layers * heads, 1)
    jsd = 0.01 * np.square(points[first] - points[second]).sum(1)
    parts = zip(("layer_a", "head_a", "layer_b", "head_b"),
                (*np.divmod(first, heads), *np.divmod(second, heads)), strict=True)  # fmt: skip
    keys = {**named(len(first)), **{name: part.tolist() for name, part in parts}}
    return table("distance between heads", keys, n=[9] * len(first), jsd=jsd.tolist())


def within_layers():
    pairs = all_pairs()
    rows = [row for row in range(len(pairs)) if pairs.data["layer_a"][row] == pairs.data["layer_b"][row]]
    data = {name: [cells[row] for row in rows] for name, cells in pairs.data.items()}
    return HeadTable(pairs.title, pairs.columns, data)


def pruning():
    orders = [("gradient", None), ("random", 1), ("random", 2)]
    rows = [(*order, step, step / 4, "accuracy") for order in orders for step in range(5)]
    names = ("criterion", "seed", "step", "share_removed", "metric")
    keys = {**named(15), **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))}
    errors = [0.01] * 5 + [None] * 10
    return table("score while heads are removed", keys, n=[50] * 15, score=numbers(15), score_se=errors)


def over_training():
    step, layer, head = (part.ravel().tolist() for part in np.indices((3, LAYERS, HEADS)))
    rows, steps = len(step), (0, 500, 8000)
    keys = {"model": [f"checkpoint-{place}" for place in step], "dataset": ["d"] * rows}
    keys |= {"step": [steps[place] for place in step], "layer": layer, "head": head}
    return table("over training", keys, entropy=numbers(rows), entropy_se=numbers(rows, 0, 0.1))


def orders():
    names = ("spearman_last", "kendall_last", "kendall_previous")
    values = {name: numbers(3, -0.2) for name in names}
    values["spearman_previous"] = [None, *numbers(2, -0.2)]
    keys = {"model": ["a", "b", "c"], "dataset": ["d"] * 3, "step": [0, 10, 20], "measure": ["entropy"] * 3}
    return table(
        "how the order of heads settles", keys, heads_last=[12] * 3, heads_previous=[0, 12, 12], **values
    )


def best_heads():
    keys = {"relation": ["det", "nsubj", "amod"] * 2, "direction": ["dependent_to_head"] * 3}
    keys["direction"] += ["head_to_dependent"] * 3
    return table(
        "syntax", {**named(6), **keys}, n=[30] * 6, layer=[0, 1, 2, 0, 1, 2], head=[3, 2, 1, 0, 1, 2],
        accuracy=numbers(6),
        accuracy_se=numbers(6, 0, 0.05), baseline=numbers(6), baseline_offset=[1, -1, 1, -1, 2, -2],
        gain=numbers(6, -0.1), p=numbers(6), p_adjusted=[0.001, 0.2, 0.04, 0.5, 0.6, 0.01],
    )  # fmt: skip


def roles():
    rows = LAYERS * HEADS
    words = ["previous", "broad", "mixed", "syntactic: det", "offset +2", "mixed"] * 2
    return table(
        "roles", {**named(rows), **places()}, role=words, measure=["x"] * rows, value=numbers(rows),
        value_se=numbers(rows, 0, 0.1), threshold=[0.5] * rows, also=["", "next"] * 6,
    )  # fmt: skip


def change():
    rows = LAYERS * HEADS
    keys = {**named(rows, "before"), "model_b": ["after"] * rows, **places()}
    columns = {"jsd": numbers(rows), "jsd_se": numbers(rows, 0, 0.01)}
    for place, name in enumerate(("entropy", "previous", "next", "self", "first", "other", "separator")):
        columns |= {f"{name}_{side}": numbers(rows) for side in "ab"}
        columns |= {f"{name}_delta": numbers(rows, -1), f"{name}_delta_se": numbers(rows, 0.1, 0.2)}
        columns[f"{name}_p_adjusted"] = ([0.001] * place + [0.5] * rows)[:rows]
    return table("before and after", keys, **columns)


def correlated():
    rows = 12
    return table(
        "heads by disagreement", {**named(rows), "place": range(rows), **places()},
        importance_in=numbers(rows), importance_out=numbers(rows), disagreement=numbers(rows, -2, 2),
    )  # fmt: skip


def correlation():
    columns = {name: [0.5] for name in ("pearson", "spearman", "kendall")}
    return table("correlation", named(1), **columns, pearson_low=[0.25], pearson_high=[0.75])


def by_group():
    groups = ["all groups", "news", "</script>", "=cmd()"]
    keys = {**named(16), "group": np.repeat(groups, 4).tolist()}
    keys |= {name: cells * 4 for name, cells in places(2, 2).items()}
    columns = {"entropy": numbers(16), "entropy_se": numbers(16, 0.1, 0.2)}
    for name, cells in (("q", numbers(4)), ("q_p", numbers(4)), ("q_p_adjusted", [0.01, None, 0.5, 0.9])):
        columns[f"entropy_{name}"] = [*cells, *[None] * 12]
    return table("entropy of heads, by group", keys, n=[9] * 16, **columns)


def by_layer():
    columns = {"cancellation": numbers(3), "cancellation_se": numbers(3, 0, 0.1)}
    return table("by layer", {**named(3), "layer": [0, 1, 2]}, n=[9] * 3, **columns)


def interactions():
    keys = {"layer_a": [0, 0, 1], "head_a": [0, 1, 0], "layer_b": [1, 1, 2], "head_b": [1, 0, 3]}
    return table(
        "interactions of heads", {**named(3), "objective": ["masked-lm"] * 3, **keys},
        proposed=[0.3, -0.2, 0.1], interaction=[0.4, -0.3, 0.01], interaction_se=[0.05, 0.06, 0.05],
        p=[0.001, 0.002, 0.8], p_adjusted=[0.003, 0.004, 0.8],
    )  # fmt: skip


def probes():
    return table(
        "probe", {**named(3), "relation": ["all", "det", "obj"]}, n=[300, 120, 40],
        accuracy=[0.61, 0.8, None], accuracy_se=[0.01, 0.02, None], best_head_accuracy=[0.4, 0.79, 0.3],
        p_adjusted=[0.001, 0.4, 0.9], baseline=[0.3, 0.5, 0.2], control=[0.1, 0.2, 0.15],
    )  # fmt: skip


def at_positions():
    """Make a table of heads at positions; at the third one, no token is the same in all rows."""
    layer, head, position = (part.ravel().tolist() for part in np.indices((LAYERS, HEADS, 4)))
    rows, tokens = len(layer), ("[CLS]", "the", None, "ran")
    keys = {**named(rows), "layer": layer, "head": head, "position": position}
    return table(
        "patching of heads at each position", keys, token=[tokens[place] for place in position],
        n=[40] * rows, effect=numbers(rows, -1.0), effect_se=numbers(rows, 0.0, 0.1),
        p_adjusted=[0.01 if row % 5 == 0 else 0.5 for row in range(rows)],
    )  # fmt: skip


def modalities():
    """Make a table of what text and image look at; three shares of a head add up to 1."""
    rows = LAYERS * HEADS
    columns = {"n": [9] * rows}
    for asker in ("text", "image"):
        shares = DRAW.dirichlet((2, 2, 1), rows).T
        for part, values in zip(("image", "text", "special"), shares, strict=True):
            columns |= {f"{asker}_to_{part}": values.tolist(), f"{asker}_to_{part}_se": numbers(rows, 0, 0.1)}
    return table("attention to image and text", {**named(rows), **places()}, **columns)


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


#: What makes a table of which each kind of picture is drawn.
NATURAL = {
    "atlas": profiles,
    "heatmap": lambda: of_heads("entropy"),
    "positions": at_positions,
    "roles": roles,
    "change": change,
    "relations": best_heads,
    "settling": orders,
    "curves": pruning,
    "lines": over_training,
    "scatter": correlated,
    "matrix": within_layers,
    "map": all_pairs,
    "clustermap": all_pairs,
    "depth": by_layer,
    "intervals": correlation,
    "pairs": interactions,
    "probes": probes,
    "groups": by_group,
    "modality": modalities,
    "alignments": alignments,
}


def make_hostile(kind):
    """Make a table for a kind of picture whose words, units and titles are all hostile."""
    safe = NATURAL[kind]()
    data, columns = {}, []
    for place, column in enumerate(safe.columns):
        harm, cells = HOSTILE[place % len(HOSTILE)], safe.data[column.name]
        # Some words say what a row is, and must stay.
        kept = {"all groups", "random"} | (set(cells) if column.name in {"direction", "attention"} else set())
        words = {cell: f"{harm}{number}" for number, cell in enumerate(dict.fromkeys(cells))}
        data[column.name] = [
            words[cell] if isinstance(cell, str) and cell not in kept else cell for cell in cells
        ]
        columns.append(Column(column.name, harm, column.role, column.headline, harm))
    return HeadTable("".join(HOSTILE), columns, data)
