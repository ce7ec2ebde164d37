"""Batches in flight on several threads: in order, never too many, and nothing left behind."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.run.passes import MOST, Workers

NUMBERS = (1, 2, 5)
ITEMS = 40


def list_workers() -> list[str]:
    """Name the workers' threads that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("attnprobe-worker")]


def slowly(seed: int, longest: float = 0.004) -> Any:
    """Make work that takes its time, which has nothing to do with the order of the items."""
    times = np.random.default_rng(seed).uniform(0, longest, 1000)

    def work(item: int) -> int:
        time.sleep(times[item])
        return item * item

    return work


@pytest.mark.parametrize("items", [0, 1, 2, ITEMS])
@pytest.mark.parametrize("number", NUMBERS)
def test_order(number: int, items: int):
    results = Workers(number).map_in_order(slowly(items), range(items))
    assert [*results] == [item**2 for item in range(items)]
    assert list_workers() == []


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
        result = work(item)
        with lock:
            at_work -= 1
        return result

    for place, _ in enumerate(Workers(number).map_in_order(counted, items())):
        taken += 1
        if place % 7 == 0:
            time.sleep(0.01)
    assert max(ahead) == (1 if number == 1 else number + 1)
    assert 1 <= most <= number


class TestEnding:
    """However it ends, it ends at once and for all threads."""

    @pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
    @pytest.mark.parametrize("bad", [0, 7])
    @pytest.mark.parametrize("number", NUMBERS)
    def test_error_in_an_item(self, number: int, bad: int, kind: type[BaseException]):
        began, work = [], slowly(2)

        def sometimes(item: int) -> int:
            began.append(item)
            if item == bad:
                raise kind("unlucky")
            return work(item)

        results = []
        with pytest.raises(kind, match="unlucky"):
            results.extend(Workers(number).map_in_order(sometimes, range(ITEMS)))
        assert results == [item**2 for item in range(bad)]  # what came before it came out
        assert max(began) <= bad + number
        assert list_workers() == []

    @pytest.mark.parametrize("number", NUMBERS)
    def test_who_takes_results_may_stop(self, number: int):
        began = []
        with closing(Workers(number).map_in_order(began.append, range(ITEMS))) as results:
            for place, _ in enumerate(results):
                if place == 3:
                    break
        assert len(began) <= 3 + 1 + number
        assert list_workers() == []
        assert torch.get_num_threads() == 1


@pytest.mark.parametrize("number", NUMBERS[1:])
def test_a_thread_enters_its_context_once(number: int):
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
    assert threading.get_ident() not in entered  # the caller is inside already


@pytest.mark.parametrize(("number", "threads"), [(2, 1), (3, 2)])
def test_threads_of_torch_are_as_before(number: int, threads: int):
    before, between, inside, later = torch.get_num_threads(), set(), set(), []
    for result in Workers(number, threads).map_in_order(lambda _: torch.get_num_threads(), range(ITEMS)):
        inside.add(result)
        between.add(torch.get_num_threads())
    assert (inside, between) == ({threads}, {before})
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [before] == [torch.get_num_threads()]


@pytest.mark.parametrize(
    ("workers", "batches", "expected"),
    [((8, 1), 100, (8, 1)), ((8, 1), 3, (3, 2)), ((8, 2), 1, (1, 16)), ((5, 1), 0, (1, 5))],
)  # fmt: skip
def test_few_batches_have_all_threads(workers: Any, batches: int, expected: Any):
    assert Workers(*workers).for_batches(batches) == Workers(*expected)


@pytest.mark.parametrize(
    ("threads", "wanted", "expected"),
    [(1, None, (1, 1)), (4, None, (4, 1)), (20, None, (MOST, 2)), (16, 3, (3, 5)), (2, 6, (6, 1))],
)  # fmt: skip
def test_threads_are_shared_out(monkeypatch: pytest.MonkeyPatch, threads: int, wanted: Any, expected: Any):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert Workers.of(*on("cpu"), wanted) == Workers(*expected)


@pytest.mark.parametrize("wanted", [None, 4])
def test_batches_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch, wanted: int | None):
    """On an accelerator, on several devices, and where a model keeps something from pass to pass."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    for where in (on("cuda"), on("cpu", "cpu, cuda:0"), on("cpu", threaded=False)):
        assert Workers.of(*where, wanted) == Workers(1, 6)


def on(device: str, devices: str = "", *, threaded: bool = True) -> tuple[Any, Any]:
    """Give as much of a checkpoint and its architecture as workers ask for."""
    checkpoint = SimpleNamespace(device=torch.device(device), devices=devices or device)
    return checkpoint, SimpleNamespace(threaded=threaded)
