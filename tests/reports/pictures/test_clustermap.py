"""The matrix of all heads in the order of their tree."""

import numpy as np
import picture_tables as tables
import pytest
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from attnprobe.reports.charts.draw import draw_picture


def order_of(table, layers, heads):
    """Order the heads anew: scipy's leaves of average linkage on roots of divergences."""
    distances = np.zeros((layers * heads, layers * heads))
    pairs = zip(
        *(table.data[name] for name in ("layer_a", "head_a", "layer_b", "head_b", "jsd")), strict=True
    )
    for layer, head, other, other_head, jsd in pairs:
        first, second = layer * heads + head, other * heads + other_head
        distances[first, second] = distances[second, first] = jsd**0.5
    flat = squareform(distances)
    return leaves_list(optimal_leaf_ordering(linkage(flat, "average"), flat)).tolist(), distances


def rows_with(drawn, *names):
    every = [*drawn.spec.get("datasets", {}).values(), *find_values(drawn.spec)]
    return next(rows for rows in every if set(names) <= set(rows[0]))


def find_values(node):
    if isinstance(node, dict):
        if isinstance(node.get("values"), list) and node["values"] and isinstance(node["values"][0], dict):
            yield node["values"]
        for part in node.values():
            yield from find_values(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_values(part)


@pytest.mark.parametrize(("layers", "heads"), [(3, 4), (6, 12)])
def test_rows_and_columns_are_in_the_order_of_scipys_leaves(layers, heads):
    table = tables.all_pairs(layers, heads)
    order, distances = order_of(table, layers, heads)
    drawn = draw_picture([table], "clustermap")
    cells = rows_with(drawn, "row", "column", "distance")
    names = [f"L{head // heads} H{head % heads}" for head in order]
    tops = {cell["y"]: cell["row"] for cell in cells}
    lefts = {cell["x"]: cell["column"] for cell in cells}
    assert [tops[y] for y in sorted(tops)] == names
    assert [lefts[x] for x in sorted(lefts)] == names
    matrix = np.array([cell["distance"] for cell in cells]).reshape(len(order), -1)
    np.testing.assert_allclose(matrix, distances[np.ix_(order, order)], atol=1e-12)


def test_squares_are_the_clusters_of_the_cut():
    table = tables.all_pairs(3, 4)
    drawn = draw_picture([table], "clustermap", clusters=4)
    _, distances = order_of(table, 3, 4)
    flat = squareform(distances)
    parts = fcluster(linkage(flat, "average"), 4, "maxclust")
    clusters = [np.flatnonzero(parts == part) for part in set(parts)]
    order, _ = order_of(table, 3, 4)
    every = [*drawn.spec.get("datasets", {}).values(), *find_values(drawn.spec)]
    squares = next(rows for rows in every if set(rows[0]) == {"x", "x2", "y", "y2"})
    places = [[order.index(head) for head in cluster] for cluster in clusters if len(cluster) > 1]
    ends = {(min(cluster), max(cluster) + 1) for cluster in places}
    assert {(square["x"], square["x2"]) for square in squares} == ends
