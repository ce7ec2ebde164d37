"""Memory that is freed is kept while a command works, and given back afterwards."""

import os
import subprocess
import sys

import pytest

import attnprobe
from attnprobe.run import allocator
from attnprobe.run.allocator import M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, keep_freed_memory

MEBIBYTE = 2**20

#: Fills 40 MiB and frees them, four times: before, while they are kept, and after; prints page faults.
#: Torch asks for aligned blocks, which glibc before 2.38 does not always take from what was freed last.
FAULTS = """
import resource
import numpy as np
from attnprobe.run.allocator import keep_freed_memory

def faults():
    np.ones(10 << 20, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        np.ones(10 << 20, np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
with keep_freed_memory():
    inside = faults()
print(before, inside, faults())
"""


class Glibc:
    """Notes what it is told; takes thresholds up to ``most``."""

    def __init__(self, most):
        self.most, self.told = most, []

    def mallopt(self, parameter, value):
        taken = parameter != M_MMAP_THRESHOLD or value <= self.most
        self.told += [(parameter, value // MEBIBYTE)] if taken else []
        return int(taken)

    def malloc_trim(self, pad):
        self.told.append(("trim", pad))


@pytest.fixture
def glibc(monkeypatch):
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)

    def stand_in(most):
        library = Glibc(most)
        monkeypatch.setattr(allocator, "_find_library", lambda: library)
        return library

    return stand_in


AFTER = [(M_MMAP_THRESHOLD, 32), (M_TRIM_THRESHOLD, 64), ("trim", 0)]


def test_large_blocks_are_kept_inside_and_given_back_afterwards(glibc):
    library = glibc(2**40)
    with keep_freed_memory():
        assert library.told == [(M_MMAP_THRESHOLD, 256), (M_TRIM_THRESHOLD, 256)]
    assert library.told[2:] == AFTER


def test_a_glibc_that_takes_less_is_given_the_most_that_it_takes(glibc):
    library = glibc(32 * MEBIBYTE)
    with keep_freed_memory():
        assert library.told == AFTER[:2]
    refusing = glibc(0)
    with keep_freed_memory():
        pass
    assert not refusing.told  # the threshold of trimming alone would end the adjustment of the other


def test_calls_inside_of_one_another_set_it_once_and_errors_give_it_back(glibc):
    library = glibc(2**40)
    with pytest.raises(KeyError), keep_freed_memory(), keep_freed_memory():
        raise KeyError
    assert library.told[2:] == AFTER


@pytest.mark.parametrize(
    ("name", "value", "untouched"),
    [
        ("MALLOC_MMAP_THRESHOLD_", "65536", True),
        ("MALLOC_TRIM_THRESHOLD_", "65536", True),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536", True),
        ("GLIBC_TUNABLES", "glibc.malloc.check=3", False),
    ],
)
def test_thresholds_of_the_user_hold(glibc, monkeypatch, name, value, untouched):
    library = glibc(2**40)
    monkeypatch.setenv(name, value)
    with keep_freed_memory():
        assert (not library.told) is untouched


def test_a_function_sets_it_as_the_command_line_does(glibc):
    library = glibc(2**40)
    attnprobe.entropy("demo", ["The parcel came late."])
    assert library.told == [(M_MMAP_THRESHOLD, 256), (M_TRIM_THRESHOLD, 256), *AFTER]


@pytest.mark.skipif(allocator._find_library() is None, reason="another C library")
def test_pages_of_one_batch_serve_the_next():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment.pop("GLIBC_TUNABLES", None)
    command = [sys.executable, "-c", FAULTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    before, inside, after = map(int, done.stdout.split())
    assert inside < 0.1 * before
    assert inside < 0.1 * after
