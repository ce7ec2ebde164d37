"""Tables to write: heads with known numbers, and strings that mean harm."""

from collections.abc import Callable

import numpy as np
import pytest

from attnprobe.table.table import Column, HeadTable

HOSTILE = [
    "=cmd()",
    "[red]x[/red]",
    "\x1b[31mred\x1b[0m",
    "user\u202egnp.exe",
    "a|b`c`<script>",
    "two\r\nlines",
    "@sum",
]


@pytest.fixture
def hostile() -> HeadTable:
    """A table of findings whose strings try to steer terminals, spreadsheets and browsers."""
    columns = [Column("check", role="key"), Column("delta")]
    data = {"check": HOSTILE, "delta": [-0.5 - i for i in range(len(HOSTILE))]}
    return HeadTable("Hostile =title\x1b[31m", columns, data, notes=["[CLS] \x1b[2J stays"])


@pytest.fixture
def heads() -> Callable[..., HeadTable]:
    """Make a table of heads; each keyword is a measure, with a standard error unless all is NaN."""

    def make(layers: int, per_layer: int, headlines: tuple[str, ...] = (), **measures: np.ndarray):
        layer, head = np.divmod(np.arange(layers * per_layer), per_layer)
        columns = [Column(name, role="key") for name in ("model", "dataset", "layer", "head")]
        columns.append(Column("n", role="count"))
        rows = layers * per_layer
        data = {"model": ["demo"] * rows, "dataset": ["shipped"] * rows, "layer": layer, "head": head}
        data["n"] = np.full(rows, 128)
        for name, values in measures.items():
            columns.append(Column(name, "nats", headline=name in headlines))
            columns.append(Column(f"{name}_se", "nats", "error"))
            data |= {name: np.asarray(values, float), f"{name}_se": np.full(rows, 0.0125)}
        provenance = {"seed": 42, "command": "attnprobe entropy demo", "weights": np.float64("nan")}
        return HeadTable("Entropy", columns, data, notes=["Entropy falls with depth."], provenance=provenance)

    return make
