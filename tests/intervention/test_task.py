"""Which objective is chosen from the head and the labels, and what is refused."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest

from attnprobe.corpus.document import Document
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import PEEKED, TaskOptions, peek
from attnprobe.intervention.task import TaskData, TaskModel, TaskSession, freeze_weights
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CAUSAL_LM, CLASSIFICATION, MASKED_LM, SEQ2SEQ, TaskHead
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import open_single_run
from attnprobe.run.progress import Progress, SilentProgress
from attnprobe.tasks import Gold

Headed = Callable[..., Checkpoint]
Sessions = Callable[..., TaskSession]
LANGUAGE = MASKED_LM, CAUSAL_LM
ALL = CLASSIFICATION, SEQ2SEQ, *LANGUAGE


class Told(SilentProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


class Shelf:
    """Checkpoints by head: gives the first that is asked for and there, else the encoder alone."""

    def __init__(self, headed: Headed, name: str, *held: str) -> None:
        self.headed, self.name, self.held = headed, name, held
        self.asked: list[tuple[tuple[TaskHead, ...], bool]] = []

    def __call__(self, heads: tuple[TaskHead, ...], force: bool, modality: str = "text") -> Checkpoint:
        self.asked.append((heads, force))
        names = {
            CLASSIFICATION: "classification",
            MASKED_LM: "masked-lm",
            CAUSAL_LM: "causal-lm",
            SEQ2SEQ: "seq2seq",
        }
        for head in heads:
            if names[head] in self.held:
                return self.headed(self.name, names[head])
            if force:
                made_up = ("classifier.bias", "classifier.weight")
                return replace(self.headed(self.name, names[head]), missing=made_up)
        return self.headed(self.name, "representation")


def choose(shelf: Shelf, *, labelled: Gold, **options: Any) -> tuple[TaskModel, list[str]]:
    told = Told()
    source = OpenSource([], "", {})
    session = TaskSession(shelf, source, CorpusOptions(), TaskOptions(**options), told)
    return session.choose(labelled), told.said


@pytest.mark.parametrize(
    ("name", "held", "labelled", "expected", "asked"),
    [
        ("bert", ["classification"], Gold.CLASS, "classification", ALL),
        ("bert", ["classification"], Gold.NONE, "representation", LANGUAGE),
        ("bert", ["masked-lm", "classification"], Gold.CLASS, "classification", ALL),
        ("bert", ["masked-lm"], Gold.NONE, "masked-lm", LANGUAGE),
        ("bert", ["masked-lm"], Gold.CLASS, "masked-lm", ALL),
        ("bert", [], Gold.CLASS, "representation", ALL),
        ("bert", [], Gold.NONE, "representation", LANGUAGE),
        ("gpt2", ["causal-lm"], Gold.NONE, "causal-lm", LANGUAGE),
        ("gpt2", ["causal-lm"], Gold.CLASS, "causal-lm", ALL),
        ("gpt2", [], Gold.NONE, "representation", LANGUAGE),
        ("t5", ["seq2seq"], Gold.CLASS, "seq2seq", ALL),
        ("t5", ["seq2seq"], Gold.NONE, "representation", LANGUAGE),
    ],
)
def test_chosen(
    headed: Headed, name: str, held: list[str], labelled: Gold, expected: str, asked: tuple[TaskHead, ...]
):
    shelf = Shelf(headed, name, *held)
    found, said = choose(shelf, labelled=labelled)
    assert found.objective == expected
    assert shelf.asked == [(asked, False)]
    assert found.gating.replays
    assert found.architecture.layers == (7 if name == "t5" else 3)
    why = {
        "classification": "by the checkpoint's sequence classification head",
        "masked-lm": "by the checkpoint's masked language model head",
        "causal-lm": "by the checkpoint's causal language model head",
        "seq2seq": "by the checkpoint's sequence to sequence head",
        "representation": "by the pooled final state; no trained head is used",
    }[expected]
    assert said == [f"the objective is {expected}, {why}."]


def test_masks_filled_by_a_decoder(headed: Headed, sessions: Sessions):
    """BART fills masks with its decoder: that is no task of its encoder."""
    bart = replace(headed("bart", "seq2seq"), head=MASKED_LM)
    found = sessions(bart, TaskOptions(), CorpusOptions()).choose(Gold.NONE)
    assert found.objective == "representation"
    with pytest.raises(AttnprobeError, match=r"bart fills masks with its decoder.* --objective seq2seq"):
        sessions(bart, TaskOptions("masked-lm"), CorpusOptions()).choose(Gold.NONE)


@pytest.mark.parametrize("kind", ["classification", "seq2seq"])
def test_labels_are_needed(headed: Headed, kind: str):
    shelf = Shelf(headed, "bert", kind)
    with pytest.raises(AttnprobeError) as caught:
        choose(shelf, labelled=Gold.NONE, objective=kind)
    assert str(caught.value).startswith(f"--objective {kind} needs one label a text, and the text has no lab")
    assert shelf.asked == []


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [("classification", "sequence classification"), ("masked-lm", "masked language model")],
)
def test_untrained_head(headed: Headed, kind: str, spelled: str):
    with pytest.raises(AttnprobeError) as caught:
        choose(Shelf(headed, "bert"), labelled=Gold.CLASS, objective=kind)
    assert str(caught.value) == (
        f"bert holds no trained {spelled} head, and numbers from a made-up one would mean nothing; choose "
        "another --objective, or pass --force-head."
    )


def test_forced_head(headed: Headed):
    shelf = Shelf(headed, "bert")
    found, said = choose(shelf, labelled=Gold.CLASS, objective="classification", force_head=True)
    assert found.objective == "classification"
    assert shelf.asked == [((CLASSIFICATION,), True)]
    assert said == [
        "the objective is classification, by the checkpoint's sequence classification head.",
        "bert holds no trained sequence classification head: 2 weights were made up, and the numbers mean "
        "little.",
    ]


def test_forced_head_of_no_objective(headed: Headed):
    shelf = Shelf(headed, "bert")
    with pytest.raises(AttnprobeError, match="pass --objective too"):
        choose(shelf, labelled=Gold.CLASS, force_head=True)
    assert shelf.asked == []


def test_labels_that_nobody_uses(headed: Headed):
    with pytest.raises(AttnprobeError) as caught:
        choose(Shelf(headed, "bert", "masked-lm"), labelled=Gold.CLASS, labels_named=True)
    assert str(caught.value) == (
        "bert holds no trained head that could use the labels; leave out --label-column, or pass --objective "
        "classification --force-head."
    )
    found, _ = choose(Shelf(headed, "bert", "classification"), labelled=Gold.CLASS, labels_named=True)
    assert found.objective == "classification"


# Binding


@pytest.fixture
def bound(headed: Headed, sessions: Sessions) -> Callable[..., AbstractContextManager[TaskData]]:
    """Bind documents to the BERT of an objective."""

    def bind(
        kind: str,
        documents: list[Document],
        options: CorpusOptions | None = None,
        progress: Progress | None = None,
    ) -> AbstractContextManager[TaskData]:
        session = sessions(headed("bert", kind), TaskOptions(objective=kind), options or CorpusOptions())
        return session.bind(session.choose(Gold.CLASS), documents, open_single_run(progress))

    return bind


def test_documents_without_a_label(bound: Any):
    some = [
        Document("the dog", label=None), Document("a cat", label=1), Document("a bird ran", label=None),
        Document("house", label="0"),
    ]  # fmt: skip
    told = Told()
    with bound("classification", some, progress=told) as bench:
        assert bench.corpus.sequences == 2
        assert bench.objective.gold.tolist() == [1, 0]
    assert "2 examples are left out for want of a label." in told.said
    with bound("masked-lm", some, progress=told) as bench:
        assert bench.corpus.sequences == 4


def test_no_document_has_a_label(bound: Any):
    some = [Document("the dog"), Document("a cat")]
    with pytest.raises(AttnprobeError, match=r"^None of the 2 examples has a label\.$"):
        bound("classification", some).__enter__()


def test_labels_stay_with_their_texts(bound: Any):
    """An empty text between two others is no example, and shifts no label."""
    some = [Document("the dog", label=0), Document("\u200b", label=1), Document("a bird ran", label=2)]
    with bound("classification", some) as bench:
        assert bench.corpus.sequences == 2
        assert bench.objective.gold.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("kind", "sequences"), [("classification", 2), ("masked-lm", 4), ("representation", 4)]
)
def test_a_labelled_document_is_one_example(bound: Any, kind: str, sequences: int):
    some = [Document("the dog ran over the red house by day", label=0), Document("a cat", label=1)]
    with bound(kind, some, CorpusOptions(max_length=5)) as bench:
        assert bench.corpus.sequences == sequences
        assert bench.corpus.window == 5


def test_frozen(headed: Headed):
    checkpoint = headed("bert", "classification")
    weight = next(iter(checkpoint.model.parameters()))
    weight.requires_grad_(True)
    try:
        with pytest.raises(KeyboardInterrupt), freeze_weights(checkpoint):  # noqa: PT012
            assert not any(w.requires_grad for w in checkpoint.model.parameters())
            raise KeyboardInterrupt
        assert [w.requires_grad for w in checkpoint.model.parameters()].count(True) == 1
        assert weight.requires_grad
    finally:
        weight.requires_grad_(False)


def test_peek():
    some = [Document("a", label=1), Document("b"), Document("c")]
    labelled, rest = peek(iter(some))
    assert labelled is Gold.CLASS
    assert list(rest) == some
    bare = [Document("b")] * (PEEKED - 1)
    labelled, rest = peek([*bare, *some])  # the last that is looked at
    assert labelled
    assert list(rest) == [*bare, *some]
    labelled, rest = peek([*bare, Document("b"), *some])
    assert not labelled
    assert len(list(rest)) == PEEKED + 3
    labelled, rest = peek(some[1:])
    assert not labelled
    assert list(rest) == some[1:]
    labelled, rest = peek([])
    assert (labelled, list(rest)) == (Gold.NONE, [])
