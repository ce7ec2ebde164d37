"""Tiny models with task heads, tasks bound to a few texts, and heads switched off by hand."""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

from attnprobe.corpus.document import Asked, Document, Tagged, find_gold
from attnprobe.corpus.source import OpenSource
from attnprobe.intervention.request import TaskOptions
from attnprobe.intervention.task import TaskData, TaskSession
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import (
    CAUSAL_LM,
    CLASSIFICATION,
    MASKED_LM,
    QUESTION_ANSWERING,
    SEQ2SEQ,
    TOKEN_CLASSIFICATION,
)
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run
from attnprobe.run.progress import SilentProgress

CLASSES = 3
KINDS = {
    "classification": CLASSIFICATION,
    "masked-lm": MASKED_LM,
    "causal-lm": CAUSAL_LM,
    "seq2seq": SEQ2SEQ,
    "multi-label": CLASSIFICATION,
    "regression": CLASSIFICATION,
    "token-classification": TOKEN_CLASSIFICATION,
    "question-answering": QUESTION_ANSWERING,
}
#: What classification heads say of themselves.
PROBLEMS = {"multi-label": "multi_label_classification", "regression": "regression"}
ENTITIES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
#: The linear layers that read what heads give.
OUTPUT = re.compile(
    r"(attention\.output\.dense|self_attn\.(o|out)_proj|(Self|EncDec)Attention\.o|encoder_attn\.out_proj"
    r"|attn\.c_proj)$"
)

#: Several of a length, pairs, a single word.
TEXTS: list[tuple[str, str | None]] = [
    ("the river bank was slow", None),
    ("a bird ran over the red house", None),
    ("the dog and the cat", None),
    ("stone", None),
    ("is it late ?", "it was always late ."),
    ("he and she walk to the train stop , never by night , always by day", None),
    ("the parcel came early", None),
    ("a cat ran under the green house", None),
    ("is it early ?", "it was never early ."),
    ("blue water and red light", None),
    ("light", None),
]
TARGETS = [
    "the river", "a bird", "dog and cat", "the stone house", "late", "walk by day", "early parcel", "a cat",
    "not early", "red water", "the light",
]  # fmt: skip


@pytest.fixture(scope="session")
def headed(tiny: Callable[[str], Any]) -> Callable[..., Checkpoint]:
    """Build a tiny checkpoint with a head, on the encoder of the same name; shared, so leave it as it was."""

    @cache
    def build(name: str, kind: str, *, double: bool = False, classes: int = CLASSES) -> Checkpoint:
        base, tokenizer = tiny(name)
        if kind == "representation":
            model = copy.deepcopy(base)
            return Checkpoint(name, model.double() if double else model, tokenizer)
        config = copy.deepcopy(base.config)
        if kind in {"classification", *PROBLEMS}:
            config.num_labels = 1 if kind == "regression" else classes
            config.problem_type = PROBLEMS.get(kind)
        if kind == "token-classification":
            config.id2label = dict(enumerate(ENTITIES))
            config.label2id = {name: number for number, name in enumerate(ENTITIES)}
        if config.is_encoder_decoder:
            config.decoder_start_token_id = 0
        torch.manual_seed(11)
        model = getattr(transformers, KINDS[kind].auto).from_config(config)
        lacking, _ = model.base_model.load_state_dict(base.state_dict(), strict=False)
        body = model.base_model.named_parameters()
        kept = {id(weight) for key, weight in body if key not in lacking}
        with torch.no_grad():
            for weight in model.parameters():
                if id(weight) not in kept:
                    spread = 0.1 if weight.ndim == 1 else (1 / weight.shape[1]) ** 0.5
                    weight.add_(torch.randn(weight.shape) * spread)
        model = model.eval().requires_grad_(False)
        return Checkpoint(name, model.double() if double else model, tokenizer, head=KINDS[kind])

    return build


def tagged(text: str, number: int) -> Tagged:
    """Label the words of a text as entities of several kinds; the last word of a longer text has no label."""
    words = text.split()
    tags = [ENTITIES[(number + 2 * place) % len(ENTITIES)] for place in range(len(words))]
    return Tagged(tuple(words), (*tags[:-1], None) if len(words) > 3 else tuple(tags))


def question(text: str, number: int) -> Document:
    """Ask for two words of a text; every fourth question has no answer, and every other one has two."""
    words = text.split()
    answers = [" ".join(words[number % len(words) :][:2]), words[0]][: 1 + number % 2]
    if number % 4 == 3:
        answers = []
    starts = [text.index(answer) for answer in answers]
    return Document("where was it ?", label=Asked(text, tuple(answers), tuple(starts)))


@pytest.fixture(scope="session")
def documents() -> Callable[[str], list[Document]]:
    """Make documents of the texts with the labels of an objective."""

    def label(kind: str) -> list[Document]:
        labels: Sequence[Any] = [None] * len(TEXTS)
        if kind == "classification":
            labels = [number % CLASSES for number in range(len(TEXTS))]
        if kind == "seq2seq":
            labels = TARGETS
        if kind == "multi-label":
            labels = [tuple(c for c in range(CLASSES) if number >> c & 1) for number in range(len(TEXTS))]
        if kind == "regression":
            labels = [number * 7 % 5 + number / 4 for number in range(len(TEXTS))]
        if kind == "token-classification":
            return [Document(text, label=tagged(text, number)) for number, (text, _) in enumerate(TEXTS)]
        if kind == "question-answering":
            return [question(text, number) for number, (text, _) in enumerate(TEXTS)]
        return [Document(*texts, label) for texts, label in zip(TEXTS, labels, strict=True)]

    return label


@pytest.fixture(scope="session")
def task_session() -> Callable[..., TaskSession]:
    """Make a session of a checkpoint, by default without texts."""

    def make(
        checkpoint: Checkpoint,
        task: TaskOptions | None = None,
        options: CorpusOptions | None = None,
        documents: Sequence[Document] = (),
        **more: Any,
    ) -> TaskSession:
        source, options = OpenSource(iter(documents), "x", {}), options or CorpusOptions()
        more = {"progress": SilentProgress()} | more
        return TaskSession(lambda *_: checkpoint, source, options, task or TaskOptions(), **more)

    return make


@pytest.fixture(scope="session")
def task_data(task_session: Any) -> Callable[..., AbstractContextManager[TaskData]]:
    """Bind a task of a checkpoint to documents."""

    @contextmanager
    def bind(
        checkpoint: Checkpoint,
        documents: Sequence[Document],
        objective: str | None = None,
        *,
        seed: int = 42,
        generate: bool = False,
        **options: Any,
    ) -> Iterator[TaskData]:
        options = {"batch_tokens": 4096} | options
        session = task_session(checkpoint, TaskOptions(objective, seed=seed), CorpusOptions(**options))
        model = session.choose(find_gold(documents[0].label))
        with session.bind(model, documents, Run(), "bleu" if generate else "") as data:
            yield data

    return bind


@pytest.fixture(scope="session")
def labelled() -> Callable[..., Any]:
    """Stand in for a corpus of which only the labels are known."""

    def make(*labels: Any) -> Any:
        batches = SimpleNamespace(labels=dict(enumerate(labels)))
        return SimpleNamespace(sequences=len(labels), batches=batches)

    return make


@pytest.fixture(scope="session")
def scale_heads() -> Callable[[PreTrainedModel, NDArray[Any]], PreTrainedModel]:
    """Copy a model, and scale the columns of its output projections by a mask of heads; no hooks."""

    def build(model: PreTrainedModel, mask: NDArray[Any]) -> PreTrainedModel:
        scaled = copy.deepcopy(model)
        readers = [module for name, module in scaled.base_model.named_modules() if OUTPUT.search(name)]
        for reader, row in zip(readers, torch.from_numpy(mask), strict=True):
            columns: Any = reader.weight.T if isinstance(reader, Conv1D) else reader.weight
            columns.mul_(row.repeat_interleave(columns.shape[1] // len(row)).to(columns))
        return scaled

    return build


@pytest.fixture(scope="session")
def inputs_of() -> Callable[[PreTrainedTokenizerFast, Document], dict[str, Tensor]]:
    """Tokenise a document alone, as a user of transformers would."""

    def tokenise(tokenizer: PreTrainedTokenizerFast, document: Document) -> dict[str, Tensor]:
        texts = (document.text,) if document.pair is None else (document.text, document.pair)
        encoded = tokenizer(*texts, return_tensors="pt", return_attention_mask=False)
        return dict(encoded)

    return tokenise


@pytest.fixture
def losses(
    headed: Any, documents: Any, scale_heads: Any, inputs_of: Any
) -> Callable[..., NDArray[np.float64]]:
    """Compute the loss of every text by the tiny BERT, or another classifier, with a mask in the weights."""

    def measure(masks: Any, checkpoint: Any = None, texts: Any = None) -> NDArray[np.float64]:
        checkpoint = checkpoint or headed("bert", "classification", double=True)
        texts = texts or documents("classification")
        model = scale_heads(checkpoint.model, np.asarray(masks, float))
        logits = [model(**inputs_of(checkpoint.tokenizer, text)).logits[0] for text in texts]
        right = torch.tensor([text.label for text in texts])
        return cross_entropy(torch.stack(logits), right, reduction="none").double().numpy()

    return measure


@pytest.fixture(scope="session")
def hooked() -> Callable[..., AbstractContextManager[None]]:
    """Show a hook what each output projection is given, call by call, and take what it returns."""

    @contextmanager
    def hook_readers(model: nn.Module, hook: Callable[[int, Tensor], Tensor | None]) -> Iterator[None]:
        calls = count()

        def before(_: nn.Module, given: tuple[Any, ...]) -> Any:
            changed = hook(next(calls), given[0])
            return None if changed is None else (changed, *given[1:])

        with ExitStack() as stack:
            for name, module in model.named_modules():
                if OUTPUT.search(name):
                    stack.callback(module.register_forward_pre_hook(before).remove)
            yield

    return hook_readers
