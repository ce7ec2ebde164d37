"""How long a user waits for the command line."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from figures import Figure


def help_seconds(*, quick: bool) -> Iterator[Figure]:
    """Time ``attnprobe --help``."""
    yield wall("attnprobe --help", ["--help"], 0.3, 0.15, 3 if quick else 10)


def entropy_seconds(*, quick: bool) -> Iterator[Figure]:
    """Time ``attnprobe entropy demo`` from start to table."""
    yield wall("attnprobe entropy demo, 2 threads", ["entropy", "demo"], 6, 4, 1 if quick else 3)


def wall(name: str, arguments: list[str], bar: float, aim: float, repetitions: int) -> Figure:
    """Give the fastest of some runs in wall seconds, after one to fill the disk cache."""
    beside = Path(sys.executable).with_name("attnprobe")
    program = str(beside) if beside.exists() else shutil.which("attnprobe")
    if program is None:
        return Figure(name, None, "s", bar, aim, "attnprobe is not installed")
    environment = os.environ | {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"}
    spent = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        done = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        spent.append(time.perf_counter() - start)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1].replace("|", "/")
            return Figure(name, None, "s", bar, aim, f"fails with {done.returncode}: {last[:60]}")
    note = f"fastest of {repetitions}; the first took {spent[0]:.2f} s"
    return Figure(name, min(spent[1:]), "s", bar, aim, note)
