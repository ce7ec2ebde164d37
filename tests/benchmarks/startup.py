"""How long a user waits for the command line."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from figures import Figure


def help_seconds(*, quick: bool) -> Iterator[Figure]:
    """Time ``attnprobe --help``."""
    yield wall("attnprobe --help", ["--help"], 0.3, 0.15, 3 if quick else 10)


def entropy_seconds(*, quick: bool) -> Iterator[Figure]:
    """Time ``attnprobe entropy demo`` from start to table."""
    yield wall("attnprobe entropy demo, 2 threads", ["entropy", "demo"], 4, 3.5, 1 if quick else 3)


def table_seconds(*, quick: bool) -> Iterator[Figure]:
    """Time what reads tables and no model; merging and checking a record still import torch."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(2):
            text = folder / f"{number}.txt"
            text.write_text("\n".join(f"Letter {n} of box {number} came late." for n in range(20)))
            for command in ("entropy", "importance"):
                words = [command, "demo", "-d", str(text), "-o", str(folder / f"{command}-{number}.csv")]
                program = [sys.executable, "-m", "attnprobe"]
                subprocess.run([*program, *words], env=environment(), capture_output=True, check=True)
        (heads, others), sides = (
            [str(folder / f"{command}-{number}.csv") for number in range(2)]
            for command in ("entropy", "importance")
        )
        repetitions = 1 if quick else 3
        drawn = ["plot", heads, "-o", str(folder / "heads.svg"), "--overwrite"]
        yield wall("attnprobe plot", drawn, 1, 0.8, repetitions)
        correlated = ["correlate", "--in-domain", sides[0], "--out-domain", sides[1]]
        yield wall("attnprobe correlate of two tables", correlated, 1, 0.8, repetitions)
        yield wall("attnprobe merge of two tables", ["merge", heads, others], None, None, repetitions)


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"}


def wall(name: str, arguments: list[str], bar: float | None, aim: float | None, repetitions: int) -> Figure:
    """Give the fastest of some runs in wall seconds, after one to fill the disk cache."""
    beside = Path(sys.executable).with_name("attnprobe")
    program = str(beside) if beside.exists() else shutil.which("attnprobe")
    if program is None:
        return Figure(name, None, "s", bar, aim, "attnprobe is not installed")
    spent = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        done = subprocess.run(
            [program, *arguments], env=environment(), capture_output=True, text=True, check=False
        )
        spent.append(time.perf_counter() - start)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1].replace("|", "/")
            return Figure(name, None, "s", bar, aim, f"fails with {done.returncode}: {last[:60]}")
    note = f"fastest of {repetitions}; the first took {spent[0]:.2f} s"
    return Figure(name, min(spent[1:]), "s", bar, aim, note)
