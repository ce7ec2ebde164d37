"""Tables of every section of a report, for any number of layers and heads, drawn at random."""

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.reports.report.contents import Contents, sort_tables
from attnprobe.table.sequence import Maps, SequenceAttention, Side
from attnprobe.table.table import Column, HeadTable

MEASURES = ("entropy", "previous", "next", "separator", "punctuation", "jsd_mean")
ROLES = ("previous", "next", "delimiter", "broad", "syntactic: det", "mixed", "mixed", "mixed")


def make_table(title, keys, measures, notes=(), *, texts=(), headline=True):
    """Make a table: measures by name, each with its errors (None for none); keys as they are."""
    rows = len(next(iter(keys.values())))
    data = {
        "model": ["m"] * rows,
        "dataset": ["d.tsv"] * rows,
        **{name: [*one] for name, one in keys.items()},
    }
    columns = [Column(name, role="text" if name in texts else "key") for name in data]
    for name, (values, errors) in measures.items():
        columns.append(Column(name, "share", title=f"title of {name}", headline=headline))
        data[name] = [*values]
        if errors is not None:
            columns.append(Column(f"{name}_se", "share", "error"))
            data[f"{name}_se"] = [*errors]
    return HeadTable(title, columns, data, list(notes))


def number_heads(layers, heads):
    layer, head = np.divmod(np.arange(layers * heads), heads)
    return {"layer": layer.tolist(), "head": head.tolist()}


def draw_measure(draw, size, spread=1.0, error=0.01):
    return np.abs(draw.normal(0.3, 0.1 * spread, size)).tolist(), draw.uniform(0.2, 1, size) * error


def draw_census(draw, layers, heads, measures=MEASURES):
    notes = [
        "A note about the texts, as long as those that tables have, which is a line and a half or so."
    ] * 2
    columns = {name: draw_measure(draw, layers * heads) for name in measures}
    return make_table("census of heads", number_heads(layers, heads), columns, notes)


def draw_roles(draw, layers, heads):
    size = layers * heads
    words = draw.choice(ROLES, size).tolist()
    found = make_table("roles of heads", number_heads(layers, heads), {})
    there = [word != "mixed" for word in words]
    values = [float(draw.uniform(0.85, 1)) if one else None for one in there]
    cells = {
        "role": words, "measure": ["offset_share" if one else None for one in there], "value": values,
        "value_se": [float(draw.uniform(0, 0.03)) if one else None for one in there],
        "threshold": [0.9 if one else None for one in there], "also": [None] * size,
        "stability": draw.choice([1.0, 0.75], size).tolist(),
    }  # fmt: skip
    roles = {"value": "measure", "value_se": "error", "threshold": "measure", "stability": "measure"}
    columns = [Column(name, role=roles.get(name, "text")) for name in cells]
    return HeadTable(found.title, [*found.columns, *columns], {**found.data, **cells})


def draw_importance(draw, layers, heads):
    keys = {"objective": ["classification"] * (layers * heads), "method": ["gradient"] * (layers * heads)}
    columns = {"importance": draw_measure(draw, layers * heads, 3.0)}
    return make_table("importance of heads", {**keys, **number_heads(layers, heads)}, columns)


def draw_distances(draw, layers, heads):
    points = draw.normal(size=(layers * heads, 5))
    one, other = np.triu_indices(layers * heads, 1)
    jsd = 0.01 * np.square(points[one] - points[other]).sum(1)
    places = {
        "layer_a": one // heads,
        "head_a": one % heads,
        "layer_b": other // heads,
        "head_b": other % heads,
    }
    keys = {name: places_.tolist() for name, places_ in places.items()}
    return make_table("distance between heads", keys, {"jsd": (jsd.tolist(), [1e-5] * len(jsd))})


def draw_removal(draw, layers, heads, orders=19, steps=11):
    """Draw a score that falls, in an order by gradient and in random ones; p from the third step on."""
    size, rows = layers * heads, []
    for seed in (None, *range(orders)):
        score = 0.9
        for step in range(steps):
            gone = round(size * step / (steps - 1))
            score -= float(draw.uniform(0, 0.08)) if step else 0.0
            known = seed is None and step > 0
            rows.append({
                "criterion": "gradient" if seed is None else "random", "seed": seed, "step": step,
                "heads_removed": gone, "share_removed": gone / size, "metric": "accuracy", "score": score,
                "score_se": 0.02, "delta": score - 0.9 if step else None,
                "delta_se": 0.02 if step else None,
                "p_adjusted": (0.2 if step < 3 else 0.001) if known else None,
                "bound": 0.93 - score if known else None,
                "delta_random": 0.01 if known else None, "delta_random_se": 0.02 if known else None,
                "p_random_adjusted": 0.5 if known else None,
            })  # fmt: skip
    data = {name: [row[name] for row in rows] for name in rows[0]}
    kinds = {"heads_removed": "count", "score": "measure", "delta": "measure", "delta_random": "measure",
             "bound": "measure", "p_adjusted": "measure", "p_random_adjusted": "measure"}  # fmt: skip
    columns = [
        Column(name, "share", "error" if name.endswith("_se") else kinds.get(name, "key")) for name in data
    ]
    keys = {"model": ["m"] * len(rows), "dataset": ["d.tsv"] * len(rows)}
    columns = [*(Column(name, role="key") for name in keys), *columns]
    return HeadTable("score while heads are removed", columns, {**keys, **data}, ["A note."] * 4)


def draw_correlation(draw, layers, heads):
    one = draw.uniform(0.1, 0.9, layers * heads)
    other = one + draw.normal(0, 0.05, layers * heads)
    by_head = {"place": list(range(1, layers * heads + 1)), **number_heads(layers, heads)}
    table = make_table("heads by disagreement", by_head,
                       {"importance_in": (one, None), "importance_out": (other, None)})  # fmt: skip
    ranks = {
        f"rank_{side}": np.argsort(np.argsort(-values)).tolist()
        for side, values in (("in", one), ("out", other))
    }
    columns = [*table.columns, *(Column(name, role="count") for name in ranks)]
    table = HeadTable(table.title, columns, {**table.data, **ranks})
    r = float(np.corrcoef(one, other)[0, 1])
    low, high = np.tanh(np.arctanh(r) + np.array([-1.96, 1.96]) / np.sqrt(layers * heads - 3))
    keys = {"in_domain": ["d.tsv"], "out_domain": ["e.tsv"], "heads": [layers * heads]}
    numbers = {"pearson": ([r], None), "pearson_low": ([low], None), "pearson_high": ([high], None)}
    numbers["spearman"] = ([r], None)
    return make_table("correlation of importance over heads", keys, numbers, ["A note."] * 4), table


def draw_sentences(draw, layers, heads, tokens=24):
    rows = draw.dirichlet(np.ones(tokens) * 0.3, (layers, heads, tokens)).astype(np.float32)
    labels = tuple(f"token{place}" for place in range(tokens))
    side = Side(labels, labels, np.zeros(tokens, bool))
    maps = Maps(Kind.ENCODER, tuple(range(layers)), rows, side, side, np.ones((layers, heads), bool))
    return SequenceAttention("m", (" ".join(labels),), (maps,))


def draw_contents(layers, heads, seed=0, **words):
    """Draw the contents of a page with every section."""
    draw = np.random.default_rng(seed)
    one_row, by_head = draw_correlation(draw, layers, heads)
    tables = {
        "census": draw_census(draw, layers, heads),
        "roles": draw_roles(draw, layers, heads),
        "importance": draw_importance(draw, layers, heads),
        "distance": draw_distances(draw, layers, heads),
        "prune": draw_removal(draw, layers, heads),
        "correlate": one_row,
        "correlate_by_head": by_head,
    }
    seen = [draw_sentences(draw, layers, heads) for _ in range(3)]
    return Contents(sort_tables(tables), seen, "They were chosen at random.", "attnprobe report m", **words)
