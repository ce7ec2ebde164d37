"""A figure to reach, and the table of all of them."""

import os
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numba
import torch
import transformers


@dataclass(frozen=True)
class Figure:
    """A measured number (None while it can't be had), the most it may be, and what it should be.

    The unit is "x" for ratios to the bare forward pass. ``gain`` says that more is better.
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
    """Print the table as Markdown, under what this ran on."""
    head = ("figure", "measured", "bar", "aim", "", "note")
    rows = [head, ("---",) * len(head), *(figure.cells() for figure in figures)]
    machine = (
        f"{_processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} in use; "
        f"torch {torch.__version__}, transformers {transformers.__version__}, numba {numba.__version__}, "
        f"Python {platform.python_version()}"
    )
    sys.stdout.write("\n".join([machine, "", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - not a file of ours
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
