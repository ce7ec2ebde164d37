"""Pairs of texts for tiny models, and heads patched by hand: by hooks on output projections."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from attnprobe.corpus.cells import Row, make_table
from attnprobe.corpus.schema import read_table
from attnprobe.corpus.source import Source
from attnprobe.intervention.patching.table import bind_pairs, choose_measure, peek_answers
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import TaskData
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.tasks import Gold

HEADS = 4
#: Word for word; of several lengths.
SIDES = [
    ("the river bank was slow and red", "the house bank was slow and red"),
    ("a bird ran over the green road", "a dog ran over the green road"),
    ("the dog and the cat", "the dog and the bird"),
    ("he and she walk to the train", "they and she walk to the day"),
    ("never by night", "always by night"),
    ("the stone house", "the water house"),
    ("a cat ran under the green light", "a cat ran under the red light"),
]
TARGETS = ["the river", "a bird", "dog", "train stop", "late", "the stone house", "a cat"]


def make_pairs(kind: str) -> list[dict[str, Any]]:
    """Make pairs with the answers of an objective; every other one has two of them."""
    pairs: list[dict[str, Any]] = []
    for number, (clean, corrupted) in enumerate(SIDES):
        pair: dict[str, Any] = {"clean": clean, "corrupted": corrupted}
        if kind == "classification":
            pair |= {"answer": number % 3, "other": (number + 1) % 3 if number % 2 else None}
        elif kind == "seq2seq":
            pair |= {"answer": TARGETS[number], "other": "red water" if number % 2 else None}
        elif kind == "masked-lm":
            # In place of the second word.
            texts = [
                " ".join([words[0], "[MASK]", *words[2:]]) for words in map(str.split, (clean, corrupted))
            ]
            texts[1] = texts[1].replace(corrupted.split()[-1], "stop")
            pair |= {"answer": "dog", "other": "cat" if number % 2 else None}
            pair |= {"clean": texts[0], "corrupted": texts[1]}
        elif kind == "causal-lm":
            pair |= {"answer": "the", "other": "a" if number % 2 else None}
        pairs.append(pair)
    return pairs


@pytest.fixture(scope="session")
def pairs_of() -> Callable[[str], list[dict[str, Any]]]:
    """Make pairs with the answers of an objective; every other one has two of them."""
    return make_pairs


@pytest.fixture(scope="session")
def paired_data(task_session: Any) -> Callable[..., Any]:
    """Bind what is measured of a checkpoint to pairs."""

    @contextmanager
    def bind(
        checkpoint: Checkpoint,
        pairs: Sequence[Mapping[str, Any]],
        objective: str | None = None,
        *,
        batch_tokens: int = 4096,
    ) -> Iterator[TaskData]:
        rows = (Row(f"pair {number}", pair) for number, pair in enumerate(pairs))
        documents = read_table(make_table("pairs", rows), Source("", contrasts=True))
        answered, documents = peek_answers(documents)
        options = CorpusOptions(batch_tokens=batch_tokens)
        session = task_session(checkpoint, TaskOptions(objective=objective), options)
        model = session.choose(Gold.CLASS if answered else Gold.NONE)
        measure = choose_measure(model, answered=answered)
        with bind_pairs(session, model, documents, measure, Run()) as data:
            yield data

    return bind


@pytest.fixture(scope="session")
def patched_by_hand(hooked: Any) -> Callable[..., float]:
    """Measure a pair by hand, with some columns of what one layer's heads give from the other text."""

    def measure(
        model: Any,
        read_off: Callable[[Any, Any], Tensor],
        base: Mapping[str, Tensor],
        source: Mapping[str, Tensor],
        layer: int | None = None,
        heads: Sequence[int] = (),
        position: int | None = None,
    ) -> float:
        kept: dict[int, Tensor] = {}

        def keep(number: int, given: Tensor) -> None:
            kept[number] = given.clone()

        def replace(number: int, given: Tensor) -> Tensor | None:
            if number != layer:
                return None
            patched, width = given.clone(), given.shape[-1] // HEADS
            rows = slice(None) if position is None else slice(position, position + 1)
            for head in heads:
                columns = slice(head * width, (head + 1) * width)
                patched[:, rows, columns] = kept[number][:, rows, columns]
            return patched

        with torch.no_grad():
            with hooked(model, keep):
                model(**source)
            with hooked(model, replace):
                return float(read_off(model(**base), base))

    return measure
