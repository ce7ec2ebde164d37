"""A figure to reach, and the table of all of them."""

import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numba
import torch
import transformers
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """A measured number beside what it should be.

    Attributes:
        name: What is measured.
        measured: The number; None while it can't be had.
        unit: "x" for ratios to the bare forward pass, or a unit.
        bar: The most it may be; None where it is only reported.
        aim: What it should be.
        note: How it was measured, or how far it scattered.
        gain: Whether more is better.
    """

    name: str
    measured: float | None
    unit: str = "x"
    bar: float | None = None
    aim: float | None = None
    note: str = ""
    gain: bool = False

    @property
    def mark(self) -> str:
        """Say whether the bar is met, and whether the aim is."""
        if self.measured is None or self.bar is None or self.aim is None:
            return ""
        sign = -1 if self.gain else 1
        if sign * self.measured > sign * self.bar:
            return "MISS"
        return "ok, aim met" if sign * self.measured <= sign * self.aim else "ok"

    def cells(self) -> tuple[str, ...]:
        """Spell the row out."""
        values = (_number(value, self.unit) for value in (self.measured, self.bar, self.aim))
        measured, bar, aim = values
        return self.name, measured if self.measured is not None else "n/a", bar, aim, self.mark, self.note


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = {"MiB": ".0f", "%": "+.1f", "nats": ".1e"}.get(unit, ".2f")
    return f"{value:{digits}}" + ("" if unit == "x" else f" {unit}")


def show(figures: Iterable[Figure]) -> None:
    """Print the table: as Markdown, so that it can be pasted, in colour on a terminal."""
    console = Console()
    table = Table("figure", "measured", "bar", "aim", "", "note", title=machine())
    rows = [figure.cells() for figure in figures]
    if console.is_terminal:
        for row in rows:
            table.add_row(*row, style="red" if row[4] == "MISS" else None)
        console.print(table)
        return
    head = ("figure", "measured", "bar", "aim", "", "note")
    lines = [machine(), "", *(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))]
    sys.stdout.write("\n".join(lines) + "\n")


def machine() -> str:
    """Describe what this ran on."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} in use; "
        f"torch {torch.__version__}, transformers {transformers.__version__}, numba {numba.__version__}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - not a file of ours
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
