"""Passes over a corpus give the same sums however many share them, and wherever they were stopped."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.corpus.document import Document
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import TaskSession
from attnprobe.intervention.trials import mask_each_head, run_trials
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, Workers, open_run
from attnprobe.run.preparation import tokenise
from attnprobe.run.process_group import ProcessGroup, Ranks
from attnprobe.run.progress import SilentProgress
from attnprobe.run.state import State
from attnprobe.statistics import all_statistics, select_statistics
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Constant, Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.survey.measure import Evaluator, open_evaluator
from attnprobe.tasks import Gold

Loaded = Callable[[str], Checkpoint]

EVERY = [
    statistic
    for statistic in all_statistics().values()
    if statistic.about != "patches"
    and statistic.family.name not in {"links", "norm"}
    and statistic.needs <= {"scores"}  # which every way of reading attention shows
]
#: One of each kind of sum, of each kind of row and of each control.
KINDS = list({(each.sums, each.scope, each.rows, each.control): each for each in reversed(EVERY)}.values())
FEW = select_statistics("entropy")
OPTIONS = CorpusOptions(max_length=14, batch_tokens=56)
KEY = {"model": "m"}


class Stopped(BaseException):
    """The process is asked to go."""


@dataclass
class Ready:
    """A model that is ready to be measured on a corpus in which some documents have several windows."""

    batches: BatchReader
    measure: Evaluator
    statistics: list[Statistic]

    @property
    def restore(self) -> Callable[..., Measurement]:
        return partial(Measurement.from_arrays, kinds={each.name: each.sums for each in self.statistics})

    def total(self, run: Run, name: str = "measuring", work: Any = None, **how: Any) -> Measurement:
        batches, work = how.pop("batches", self.batches), work or self.measure.measurement
        return run.total(name, batches, work, self.restore, thread_context=self.measure.thread_context, **how)


@contextmanager
def ready(checkpoint: Checkpoint, texts: list, statistics: list[Statistic] = FEW) -> Iterator[Ready]:
    documents = [Document(text) if isinstance(text, str) else Document(*text) for text in texts]
    with (
        tokenise(checkpoint, documents, OPTIONS) as corpus,
        open_evaluator(checkpoint, inspect(checkpoint), statistics) as measure,
    ):
        assert len(corpus.batches) > 8
        assert {*np.bincount(corpus.batches.documents)} > {1, 2}
        yield Ready(corpus.batches, measure, statistics)


def open_kept(path: Path, progress: Any = None, key: dict[str, str] = KEY) -> Run:
    """Open a run of a single process that keeps its state."""
    return Run(ProcessGroup(), State(path, key), progress or SilentProgress(), "cpu")


def assert_same(sums: Any, expected: Any) -> None:
    """Compare the arrays of two sums bit for bit."""
    ours, theirs = sums.arrays(), expected.arrays()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape), name
        assert array.tobytes() == theirs[name].tobytes(), name


def slowed(work: Callable[[Batch], Any], seed: int = 0) -> tuple[Callable[[Batch], Any], set[int]]:
    """Delay work at random, so that batches end in another order than they began; note its threads."""
    draw, who = np.random.default_rng(seed), set()

    def slowly(batch: Batch) -> Any:
        who.add(threading.get_ident())
        time.sleep(draw.uniform(0, 0.004))
        result = work(batch)
        time.sleep(draw.uniform(0, 0.004))
        return result

    return slowly, who


class TestWorkers:
    """Several batches at a time."""

    @pytest.mark.parametrize("name", ["bert", "t5", "llama"])
    def test_same_bits(self, checkpoint: Loaded, texts: list, name: str):
        assert inspect(checkpoint(name)).threaded
        with ready(checkpoint(name), texts, EVERY if name == "bert" else KINDS) as it:
            expected = it.total(Run())
            for number in (1, 2, 3):
                work, who = slowed(it.measure.measurement, number)
                assert_same(it.total(Run(), work=work, workers=Workers(number)), expected)
                assert (len(who) > 1) == (number > 1)
        assert (expected.sequences, expected.tokens) == (len(it.batches.members), it.batches.tokens)

    @pytest.mark.slow
    def test_interventions(self, checkpoint: Loaded, texts: list):
        """Gates and replay are each thread's own."""
        measured = []
        documents = [Document(text) for text in texts if isinstance(text, str)]
        for number in (1, 3):
            how: Any = {"progress": SilentProgress(), "workers": number}
            load, source = lambda *_: checkpoint("bert"), OpenSource([], "", {})
            session = TaskSession(load, source, OPTIONS, TaskOptions("representation"), **how)
            with session.bind(session.choose(Gold.NONE), documents, Run()) as data:
                assert data.corpus.workers.number == number
                trials = run_trials(data, mask_each_head(*data.model.shape)[::3], ("similarity", "loss"))
                arrays = [*trials.untouched.values(), *chain(*(masked.values() for masked in trials.masked))]
                arrays += gradient_importance(data).arrays().values()
                measured.append([array.tobytes() for array in arrays])
        assert measured[0] == measured[1]


class TestSums:
    """What is added up."""

    def test_errors_are_over_documents(self, checkpoint: Loaded, texts: list):
        """The jackknife over documents, of the values of every window."""
        with ready(checkpoint("bert"), texts) as it:
            entropy = it.total(Run(), workers=Workers(2)).sums["entropy"]
            batches = list(it.batches)
            values = np.concatenate([it.measure.evaluate(batch)["entropy"] for batch in batches], dtype=float)
            documents = np.concatenate([batch.documents for batch in batches])
        names = np.unique(documents)
        assert len(names) < len(documents)
        left_out = np.stack([values[documents != name].mean(0) for name in names])
        spread = (len(names) - 1) / len(names) * np.square(left_out - values.mean(0)).sum(0)
        np.testing.assert_allclose(entropy.average, values.mean(0), rtol=1e-12)
        np.testing.assert_allclose(entropy.standard_error, np.sqrt(spread), rtol=1e-9)
        assert (entropy.clusters == len(names)).all()

    def test_nothing(self, checkpoint: Loaded, texts: list):
        with (
            ready(checkpoint("bert"), texts) as it,
            pytest.raises(AttnprobeError, match="There is not a single sequence to measure"),
        ):
            it.total(Run(), batches=it.batches.follow([]))


@dataclass(frozen=True)
class PlayedGroup(ProcessGroup):
    """A process group of which one process plays all, with the parts that the ``others`` send."""

    group: Any = None
    others: Any = ()

    def gather(self, mine: Any) -> list[Any]:
        return list(self.others)


class TestProcesses:
    """Shares of several processes."""

    @pytest.mark.parametrize("size", [2, 100])
    def test_shares(self, checkpoint: Loaded, texts: list, size: int):
        """Every process gets the same bits; some may have nothing to do."""
        with ready(checkpoint("bert"), texts, KINDS) as it:
            given = ("measuring", it.batches, it.measure.measurement, it.restore)
            expected = it.total(Run())
            shares = [
                Run(ProcessGroup(Ranks(rank, size), None), State(None, {}), SilentProgress()).share(*given)
                for rank in range(size)
            ]
            assert sum(share is not None for share in shares) == min(size, len(it.batches))
            arrays = [None if share is None else share.arrays() for share in shares]
            totals = [
                Run(PlayedGroup(Ranks(rank, size), others=arrays), State(None, {}), SilentProgress()).add_up(
                    shares[rank], it.restore
                )
                for rank in range(min(size, 3))
            ]
        for total in totals:
            assert_same(total, totals[0])
            assert (total.sequences, total.tokens) == (expected.sequences, expected.tokens)
        for name, whole in expected.sums.items():
            shared = totals[0].sums[name]
            np.testing.assert_array_equal(shared.count, whole.count)
            np.testing.assert_allclose(shared.average, whole.average, rtol=1e-12, atol=1e-12)
            if isinstance(whole, Constant):
                continue
            if isinstance(whole, Clustered):
                np.testing.assert_array_equal(shared.clusters, whole.clusters)
            np.testing.assert_allclose(shared.standard_error, whole.standard_error, rtol=1e-9, atol=1e-12)


def stopping(work: Callable[[Batch], Any], after: int) -> Callable[[Batch], Any]:
    """Stop the run after a number of batches."""
    left = iter(range(after))

    def until(batch: Batch) -> Any:
        if next(left, None) is None:
            raise Stopped
        return work(batch)

    return until


def counting(work: Callable[[Batch], Any]) -> tuple[Callable[[Batch], Any], list[Batch]]:
    done: list[Batch] = []

    def noted(batch: Batch) -> Any:
        done.append(batch)
        return work(batch)

    return noted, done


class TestStages:
    """Passes that were stopped go on."""

    @pytest.mark.parametrize("after", [0, 4])
    @pytest.mark.parametrize("number", [1, 3])
    def test_goes_on(
        self, checkpoint: Loaded, texts: list, tmp_path: Path, listener: Any, number: int, after: int
    ):
        path = tmp_path / "state"
        with ready(checkpoint("bert"), texts, KINDS) as it:
            expected, whole = it.total(Run()), len(it.batches)
            run = open_kept(path)
            with pytest.raises(Stopped), run.state.save_on_exit():
                it.total(run, work=stopping(it.measure.measurement, after), workers=Workers(number))
            work, done = counting(it.measure.measurement)
            run = open_kept(path, listener)
            with run.state.save_on_exit():
                assert_same(it.total(run, work=work, workers=Workers(number)), expected)
            # With several threads, batches behind the one that failed may have been done, too.
            before = whole - len(done)
            assert before == after if number == 1 else before <= after
            sentence = f"going on from {path}: {before} of {whole} batches are done."
            assert listener.sentences == ([sentence] if before else [])
            assert listener.steps == [it.batches.tokens]
            work, done = counting(it.measure.measurement)
            assert_same(
                it.total(open_kept(path), work=work, workers=Workers(number)), expected
            )  # it is all there
            assert done == []

    def test_another_is_refused_by_name(self, checkpoint: Loaded, texts: list, tmp_path: Path):
        path = tmp_path / "state"
        shorter = [Document(text) for text in texts if isinstance(text, str)]
        with (
            ready(checkpoint("bert"), texts) as it,
            tokenise(checkpoint("bert"), shorter, OPTIONS) as other,
        ):
            question = {"heads that are on": "all"}
            run = open_kept(path)
            with run.state.save_on_exit():
                expected = it.total(run, question=question)
            content = path.read_bytes()
            for different, how in (
                ("dataset", {"batches": other.batches}),
                ("plan of batches", {"batches": it.batches.half(True)}),
                ("heads that are on", {"question": {"heads that are on": "few"}}),
                ("device or number of threads", {"workers": Workers(2, 3)}),
            ):
                refusal = rf"^The state {path} belongs to a run with another {different}; [^.]*\.$"
                with pytest.raises(AttnprobeError, match=refusal):
                    it.total(open_kept(path), **{"question": question, **how})
            with pytest.raises(AttnprobeError, match="another device or number of threads"):
                it.total(replace(open_kept(path), device="cuda:0"), question=question)
            with pytest.raises(AttnprobeError, match="belongs to a run with another model; "):
                open_kept(path, key={"model": "another"})
            assert path.read_bytes() == content
            assert_same(it.total(open_kept(path), question=question), expected)


class TestRunning:
    """What a whole run depends on."""

    @staticmethod
    def run(checkpoint: Checkpoint, path: Path, options: CorpusOptions = OPTIONS, **question: str) -> Run:
        with open_run(checkpoint, options, question, resume=path, progress=SilentProgress()) as run:
            run.state.stage("measuring").mark_batch_done(lambda: {"a": np.ones(1)})
        return run

    def test_refused(self, checkpoint: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        path, bert = tmp_path / "state", checkpoint("bert")
        self.run(bert, path, seed="42")
        content = path.read_bytes()
        for name, given in (
            ("model", (replace(bert, origin={"sha256": "else"}), path)),
            ("setting", (bert, path, replace(OPTIONS, content_only=True))),
        ):
            with pytest.raises(AttnprobeError, match=f"belongs to a run with another {name}; "):
                self.run(*given, seed="42")
        with pytest.raises(AttnprobeError, match="belongs to a run with another seed; "):
            self.run(bert, path, seed="1")
        with monkeypatch.context() as changed:
            made = {"versions": {"numpy": "0.1"}}
            changed.setattr("attnprobe.run.passes.record_versions", lambda: made)
            with pytest.raises(AttnprobeError, match="belongs to a run with another version of a package; "):
                self.run(bert, path, seed="42")
        assert path.read_bytes() == content

    def test_nothing_is_kept(self, checkpoint: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        with open_run(checkpoint("bert"), OPTIONS, {}, resume=None, progress=SilentProgress()) as run:
            run.state.stage("measuring").mark_batch_done(lambda: {})
        assert [*tmp_path.iterdir()] == []
        assert run.processes.ranks == Ranks()
