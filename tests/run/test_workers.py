"""Batches in flight on several threads: in order, never too many, and nothing left behind."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.run.passes import MOST, Workers

NUMBERS = (1, 2, 3, 5, 8)
ITEMS = 60


def ours() -> list[str]:
    """Name the workers' threads that are alive."""
    return [one.name for one in threading.enumerate() if one.name.startswith("attnprobe-worker")]


def slowly(seed: int, longest: float = 0.004) -> Any:
    """Make work that takes its time, which has nothing to do with the order of the items."""
    times = np.random.default_rng(seed).uniform(0, longest, 1000)

    def work(item: int) -> int:
        time.sleep(times[item])
        return item * item

    return work


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", NUMBERS)
def test_order(number: int, seed: int):
    assert [*Workers(number).map_in_order(slowly(seed), range(ITEMS))] == [item**2 for item in range(ITEMS)]
    assert ours() == []


@pytest.mark.parametrize("items", [0, 1, 2])
@pytest.mark.parametrize("number", NUMBERS)
def test_few_items(number: int, items: int):
    assert [*Workers(number).map_in_order(str, range(items))] == [*map(str, range(items))]


@pytest.mark.parametrize("number", NUMBERS)
def test_in_flight(number: int):
    """One more item than workers is read ahead, whoever is slow, and no more are computed at a time."""
    read, taken, ahead, lock = 0, 0, [], threading.Lock()
    at_work, most = 0, 0
    work = slowly(1)

    def items() -> Iterator[int]:
        nonlocal read
        for item in range(ITEMS):
            read += 1
            ahead.append(read - taken)
            yield item

    def counted(item: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        found = work(item)
        with lock:
            at_work -= 1
        return found

    for place, _ in enumerate(Workers(number).map_in_order(counted, items())):
        taken += 1
        if place % 7 == 0:
            time.sleep(0.01)
    assert max(ahead) == (1 if number == 1 else number + 1)
    assert 1 <= most <= number


class TestEnding:
    """However it ends, it ends at once and for all threads."""

    @pytest.mark.parametrize("kind", [RuntimeError, MemoryError, KeyboardInterrupt])
    @pytest.mark.parametrize("bad", [0, 7])
    @pytest.mark.parametrize("number", NUMBERS)
    def test_error_in_an_item(self, number: int, bad: int, kind: type[BaseException]):
        began, work = [], slowly(2)

        def sometimes(item: int) -> int:
            began.append(item)
            if item == bad:
                raise kind("unlucky")
            return work(item)

        found = []
        with pytest.raises(kind, match="unlucky"):
            found.extend(Workers(number).map_in_order(sometimes, range(ITEMS)))
        assert found == [item**2 for item in range(bad)]  # what came before it came out
        assert max(began) <= bad + number
        assert ours() == []

    @pytest.mark.parametrize("number", NUMBERS)
    def test_error_while_reading(self, number: int):
        def items() -> Iterator[int]:
            yield from range(5)
            raise OSError("the disk is gone")

        with pytest.raises(OSError, match="the disk is gone"):
            [*Workers(number).map_in_order(slowly(3), items())]
        assert ours() == []

    @pytest.mark.parametrize("number", NUMBERS)
    def test_enough(self, number: int):
        """Who takes results may stop."""
        began = []
        with closing(Workers(number).map_in_order(began.append, range(ITEMS))) as results:
            for place, _ in enumerate(results):
                if place == 3:
                    break
        assert len(began) <= 3 + 1 + number
        assert ours() == []
        assert torch.get_num_threads() == 1


class TestJoining:
    """What a thread enters before it works."""

    @pytest.mark.parametrize("number", NUMBERS[1:])
    def test_once_a_thread(self, number: int):
        entered, inside = Counter(), threading.local()

        @contextmanager
        def joined() -> Iterator[None]:
            entered[threading.get_ident()] += 1
            inside.here = True
            yield

        def work(item: int) -> bool:
            time.sleep(0.001)
            return inside.here

        assert all(Workers(number).map_in_order(work, range(ITEMS), joined))
        assert {*entered.values()} == {1}
        assert 1 <= len(entered) <= number
        assert threading.get_ident() not in entered
        assert not hasattr(inside, "here")

    def test_not_where_the_caller_works(self):
        """It is inside already."""
        assert [*Workers(1).map_in_order(str, range(3), lambda: pytest.fail("entered twice"))] == [
            "0",
            "1",
            "2",
        ]

    @pytest.mark.parametrize("number", NUMBERS)
    def test_context(self, number: int):
        """What was settled for the asking thread, such as how much memory there is, holds in all."""
        said: ContextVar[int] = ContextVar("said", default=0)
        said.set(1)
        results = Workers(number).map_in_order(lambda _: said.get(), range(ITEMS))
        assert {*results} == {1}


class TestThreads:
    """The threads that torch takes for each worker."""

    @pytest.mark.parametrize(("number", "threads"), [(2, 1), (3, 2), (2, 5)])
    def test_as_before(self, number: int, threads: int):
        before = torch.get_num_threads()
        between = []
        results = Workers(number, threads).map_in_order(lambda _: torch.get_num_threads(), range(ITEMS))
        found = set()
        for one in results:
            found.add(one)
            between.append(torch.get_num_threads())
        assert found == {threads}
        assert {*between} == {before}
        assert torch.get_num_threads() == before
        later = []
        one = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        one.start()
        one.join()
        assert later == [before]

    @pytest.mark.parametrize(
        ("workers", "batches", "expected"),
        [
            ((8, 1), 100, (8, 1)), ((8, 1), 8, (8, 1)), ((8, 1), 3, (3, 2)), ((8, 2), 1, (1, 16)),
            ((4, 3), 2, (2, 6)), ((1, 6), 0, (1, 6)), ((5, 1), 0, (1, 5)),
        ],
    )  # fmt: skip
    def test_for_batches(self, workers: tuple[int, int], batches: int, expected: tuple[int, int]):
        """Few batches have all threads, too."""
        assert Workers(*workers).for_batches(batches) == Workers(*expected)

    @pytest.mark.parametrize(
        ("threads", "wanted", "expected"),
        [
            (1, None, (1, 1)), (4, None, (4, 1)), (16, None, (MOST, 2)), (20, None, (MOST, 2)),
            (16, 1, (1, 16)), (16, 3, (3, 5)), (2, 6, (6, 1)),
        ],
    )  # fmt: skip
    def test_shared_out(
        self,
        monkeypatch: pytest.MonkeyPatch,
        threads: int,
        wanted: int | None,
        expected: tuple[int, int],
    ):
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        assert Workers.of(*on("cpu"), wanted) == Workers(*expected)

    @pytest.mark.parametrize("wanted", [None, 4])
    def test_one_by_one(self, monkeypatch: pytest.MonkeyPatch, wanted: int | None):
        """On an accelerator, on several devices, and where a model keeps something from pass to pass."""
        monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
        for where in (on("cuda"), on("cpu", "cpu, cuda:0"), on("cpu", threaded=False)):
            assert Workers.of(*where, wanted) == Workers(1, 6)


def on(device: str, devices: str = "", *, threaded: bool = True) -> tuple[Any, Any]:
    """Give as much of a checkpoint and its architecture as workers ask for."""
    checkpoint = SimpleNamespace(device=torch.device(device), devices=devices or device)
    return checkpoint, SimpleNamespace(threaded=threaded)
