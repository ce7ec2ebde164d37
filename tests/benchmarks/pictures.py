"""How long a user waits for the picture of a table, from start to file."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from figures import Figure

from attnprobe.table.table import Column, HeadTable


def census(layers: int, heads: int) -> HeadTable:
    """Draw a table of five measures with errors, of which a census shows as many."""
    draw, rows = np.random.default_rng(0), layers * heads
    layer, head = np.divmod(np.arange(rows), heads)
    columns = [Column(name, role="key") for name in ("model", "dataset", "layer", "head")]
    data = {"model": ["m"] * rows, "dataset": ["d"] * rows, "layer": layer.tolist(), "head": head.tolist()}
    for number in range(5):
        name = f"measure_{number}"
        columns += [Column(name, "share", headline=True), Column(f"{name}_se", "share", "error")]
        data |= {name: draw.random(rows).tolist(), f"{name}_se": (0.1 * draw.random(rows)).tolist()}
    return HeadTable("census of heads", columns, data)


def all_pairs(layers: int, heads: int) -> HeadTable:
    """Draw divergences between all pairs of heads."""
    points = np.random.default_rng(0).normal(size=(layers * heads, 5))
    first, second = np.triu_indices(len(points), 1)
    jsd = 0.01 * np.square(points[first] - points[second]).sum(1)
    data = {"model": ["m"] * len(first)}
    for side, places in (("a", first), ("b", second)):
        data |= {f"layer_{side}": (places // heads).tolist(), f"head_{side}": (places % heads).tolist()}
    columns = [*(Column(name, role="key") for name in data), Column("jsd", "nats")]
    return HeadTable("distance between heads", columns, {**data, "jsd": jsd.tolist()})


def picture_seconds(*, quick: bool) -> Iterator[Figure]:
    """Time ``attnprobe plot`` of 12 x 12 heads in every format, and of all pairs of 24 x 16 heads."""
    repetitions = 2 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        heads, pairs = Path(folder) / "heads.csv", Path(folder) / "pairs.csv"
        census(12, 12).save(heads)
        all_pairs(24, 16).save(pairs)
        for ending in ("svg", "png", "pdf", "html"):
            words = ["plot", str(heads), "--overwrite", "-o", f"{folder}/picture.{ending}"]
            yield wall(f"attnprobe plot, five maps of 12 x 12 heads, {ending}", words, 3, 2, repetitions)
        for kind in ("map", "clustermap"):
            words = ["plot", str(pairs), "--overwrite", "--kind", kind, "-o", f"{folder}/picture.svg"]
            yield wall(
                f"attnprobe plot, all pairs of 24 x 16 heads, {kind}", words, 10, 5, max(1, repetitions // 2)
            )


def wall(name: str, arguments: list[str], bar: float | None, aim: float | None, repetitions: int) -> Figure:
    """Give the fastest of some runs in wall seconds, after one to fill the disk cache."""
    command = [sys.executable, "-m", "attnprobe", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"}
    spent = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        subprocess.run(command, env=environment, capture_output=True, check=True)
        spent.append(time.perf_counter() - start)
    note = f"fastest of {repetitions}; the first took {spent[0]:.2f} s"
    return Figure(name, min(spent[1:]), "s", bar, aim, note)
