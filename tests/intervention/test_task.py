"""Which objective is chosen from the head and the labels, and what is refused."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest

from attnprobe.corpus.document import Document
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import PEEKED, TaskOptions, find_shared_gold, peek
from attnprobe.intervention.task import TaskData, TaskModel, TaskSession
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CAUSAL_LM, CLASSIFICATION, MASKED_LM, SEQ2SEQ, TaskHead
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.tasks import Gold

Headed = Callable[..., Checkpoint]
LANGUAGE = MASKED_LM, CAUSAL_LM
ALL = CLASSIFICATION, SEQ2SEQ, *LANGUAGE
NAMES = {
    CLASSIFICATION: "classification", MASKED_LM: "masked-lm", CAUSAL_LM: "causal-lm", SEQ2SEQ: "seq2seq",
}  # fmt: skip


class Shelf:
    """Checkpoints by head: gives the first that is asked for and there, else the encoder alone."""

    def __init__(self, headed: Headed, name: str, *held: str) -> None:
        self.headed, self.name, self.held = headed, name, held
        self.tried: list[tuple[tuple[TaskHead, ...], bool]] = []

    def __call__(self, heads: tuple[TaskHead, ...], force: bool, modality: str = "text") -> Checkpoint:
        self.tried.append((heads, force))
        for head in heads:
            name = NAMES[head]
            if name in self.held:
                return self.headed(self.name, name)
            if force:
                made_up = ("classifier.bias", "classifier.weight")
                return replace(self.headed(self.name, name), missing=made_up)
        return self.headed(self.name, "representation")


@pytest.fixture
def choose(listener: Any) -> Callable[..., TaskModel]:
    """Choose a checkpoint off a shelf."""

    def call(shelf: Shelf, *, labelled: Gold, **options: Any) -> TaskModel:
        source, task = OpenSource([], "", {}), TaskOptions(**options)
        return TaskSession(shelf, source, CorpusOptions(), task, listener).choose(labelled)

    return call


@pytest.mark.parametrize(
    ("name", "held", "labelled", "expected", "tried"),
    [
        ("bert", ["classification"], Gold.NONE, "representation", LANGUAGE),
        ("bert", ["masked-lm", "classification"], Gold.CLASS, "classification", ALL),
        ("bert", ["masked-lm"], Gold.NONE, "masked-lm", LANGUAGE),
        ("bert", [], Gold.CLASS, "representation", ALL),
        ("llama", ["causal-lm"], Gold.CLASS, "causal-lm", ALL),
        ("t5", ["seq2seq"], Gold.CLASS, "seq2seq", ALL),
        ("t5", ["seq2seq"], Gold.NONE, "representation", LANGUAGE),
    ],
)
def test_chosen(
    headed: Headed,
    choose: Any,
    listener: Any,
    name: str,
    held: Any,
    labelled: Gold,
    expected: str,
    tried: Any,
):
    shelf = Shelf(headed, name, *held)
    assert choose(shelf, labelled=labelled).objective == expected
    assert shelf.tried == [(tried, False)]
    assert listener.sentences[0].startswith(f"the objective is {expected}, by ")


def test_masks_filled_by_a_decoder(headed: Headed, task_session: Any):
    """BART fills masks with its decoder: that is no task of its encoder."""
    bart = replace(headed("bart", "seq2seq"), head=MASKED_LM)
    assert task_session(bart).choose(Gold.NONE).objective == "representation"
    with pytest.raises(AttnprobeError, match=r"bart fills masks with its decoder.* --objective seq2seq"):
        task_session(bart, TaskOptions("masked-lm")).choose(Gold.NONE)


def test_labels_are_needed(headed: Headed, choose: Any):
    shelf = Shelf(headed, "bert", "classification")
    with pytest.raises(AttnprobeError, match="--objective classification needs one label a text"):
        choose(shelf, labelled=Gold.NONE, objective="classification")
    with pytest.raises(AttnprobeError, match="pass --objective too"):
        choose(shelf, labelled=Gold.CLASS, force_head=True)
    with pytest.raises(AttnprobeError, match="a task needs labels of one kind"):
        find_shared_gold([Gold.CLASS, Gold.WORDS])
    assert shelf.tried == []


def test_untrained_head(headed: Headed, choose: Any, listener: Any):
    """It is refused, and forced with a warning."""
    shelf, options = Shelf(headed, "bert"), {"labelled": Gold.CLASS, "objective": "classification"}
    with pytest.raises(AttnprobeError, match="bert holds no trained sequence classification head"):
        choose(shelf, **options)
    assert choose(shelf, **options, force_head=True).objective == "classification"
    assert shelf.tried[-1] == ((CLASSIFICATION,), True)
    assert (
        "bert holds no trained sequence classification head: 2 weights were made up" in listener.sentences[-1]
    )


def test_labels_that_nobody_uses(headed: Headed, choose: Any):
    with pytest.raises(AttnprobeError, match="bert holds no trained head that could use the labels"):
        choose(Shelf(headed, "bert", "masked-lm"), labelled=Gold.CLASS, labels_named=True)


# Binding


@pytest.fixture
def bound(headed: Headed, task_session: Any, listener: Any) -> Callable[..., Any]:
    """Bind documents to the BERT of an objective."""

    def bind(kind: str, documents: list[Document], **options: Any) -> AbstractContextManager[TaskData]:
        session = task_session(headed("bert", kind), TaskOptions(kind), CorpusOptions(**options))
        return session.bind(session.choose(Gold.CLASS), documents, Run(progress=listener))

    return bind


def test_documents_without_a_label(bound: Any, listener: Any):
    texts = [
        Document("the dog", label=None), Document("a cat", label=1), Document("a bird ran", label=None),
        Document("house", label="0"),
    ]  # fmt: skip
    with bound("classification", texts) as data:
        assert data.corpus.sequences == 2
        assert data.objective.gold.tolist() == [1, 0]
    assert "2 examples are left out for want of a label." in listener.sentences
    with pytest.raises(AttnprobeError, match="None of the 2 examples has a label"):
        bound("classification", texts[::2]).__enter__()


def test_texts_of_one_token_predict_none(headed: Headed, task_session: Any, tiny: Any):
    checkpoint = replace(headed("gpt2", "causal-lm"), tokenizer=tiny("bert-unframed")[1])
    session = task_session(checkpoint, TaskOptions("causal-lm"))
    with pytest.raises(AttnprobeError, match="needs 2 tokens or more"):
        session.bind(session.choose(Gold.NONE), [Document("dog")], Run()).__enter__()


def test_labels_stay_with_their_texts(bound: Any):
    """An empty text between two others is no example, and shifts no label."""
    texts = [Document("the dog", label=0), Document("\u200b", label=1), Document("a bird ran", label=2)]
    with bound("classification", texts) as data:
        assert data.corpus.sequences == 2
        assert data.objective.gold.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("kind", "sequences"), [("classification", 2), ("masked-lm", 4), ("representation", 4)]
)
def test_a_labelled_document_is_one_example(bound: Any, kind: str, sequences: int):
    texts = [Document("the dog ran over the red house by day", label=0), Document("a cat", label=1)]
    with bound(kind, texts, max_length=5) as data:
        assert data.corpus.sequences == sequences
        assert data.corpus.max_length == 5


def test_peek():
    texts = [Document("a", label=1), Document("b"), Document("c")]
    labelled, rest = peek(iter(texts))
    assert labelled is Gold.CLASS
    assert list(rest) == texts
    bare = [Document("b")] * (PEEKED - 1)
    labelled, rest = peek([*bare, *texts])  # the last that is looked at
    assert labelled
    assert list(rest) == [*bare, *texts]
    labelled, rest = peek([*bare, Document("b"), *texts])
    assert (labelled, len(list(rest))) == (Gold.NONE, PEEKED + 3)
