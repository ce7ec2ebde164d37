"""What a census costs as a function of Python, and in a loop of training, in bare passes of its texts."""

import time
from collections.abc import Iterator
from statistics import median

import numpy as np
import torch
from figures import Figure
from ratios import as_figure, paired_ratios
from shapes import BERT_BASE, MINILM, word_tokenizer
from torch import Tensor
from transformers import PreTrainedModel

import attnprobe
from attnprobe.run.corpus import BATCH_TOKENS_CPU
from attnprobe.run.progress import SilentProgress

#: Shapes, lengths, and the most that a call may cost and what it should.
CALLS = (
    ("BERT-base, 128 tokens", BERT_BASE, 128, 1.08, 1.05),
    ("BERT-base, 512 tokens", BERT_BASE, 512, 1.15, 1.12),
    ("MiniLM-L6, 128 tokens", MINILM, 128, None, None),
    ("MiniLM-L6, 512 tokens", MINILM, 512, None, None),
)
WORDS = [f"word{number}" for number in range(1_000)]


class Watch(SilentProgress):
    """Notes when the passes begin: the dry run and the tokens come once, however long the text is."""

    def __init__(self) -> None:
        self.began = 0.0

    def stage(self, name: str, total: int | None) -> None:
        if total is not None:
            self.began = time.process_time()


def _draw(number: int, length: int) -> list[str]:
    """Draw texts of so many tokens, with those of the frame."""
    drawn = np.random.default_rng(length).integers(len(WORDS), size=(number, length - 2))
    return [" ".join(WORDS[word] for word in text) for text in drawn]


def _pass(model: PreTrainedModel, parts: tuple[Tensor, ...]) -> float:
    with torch.inference_mode():
        start = time.process_time()
        for part in parts:
            model(part)
        return time.process_time() - start


def call_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the passes of ``attnprobe.census``, with its table, with bare passes of its batches."""
    for name, shape, length, bar, aim in CALLS[:2] if quick else CALLS:
        model, tokenizer, each = shape.model(), word_tokenizer(WORDS), BATCH_TOKENS_CPU // length
        texts = _draw(4 * each, length)
        parts = torch.tensor(tokenizer(texts)["input_ids"]).split(each)
        attnprobe.census(model, texts, tokenizer=tokenizer)
        before, ratios = _pass(model, parts), []
        for _ in range(3 if quick else 9):
            watch = Watch()
            attnprobe.census(model, texts, tokenizer=tokenizer, progress=watch)
            spent, after = time.process_time() - watch.began, _pass(model, parts)
            ratios.append(2 * spent / (before + after))
            before = after
        yield as_figure(f"attnprobe.census(), {name}", ratios, bar, aim)


def callback_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare a measurement, the dry run and what is tokenised included, with the bare forward pass."""
    texts, tokenizer, model = _draw(64, 128), word_tokenizer(WORDS), MINILM.model()
    ids = torch.tensor(tokenizer(texts)["input_ids"])
    callback = attnprobe.HeadCallback(texts, batch_tokens=8 * ids.shape[1])
    seconds: list[float] = []

    def measure() -> None:
        callback.begin(0)
        started = time.process_time()
        callback.measure(model, tokenizer, 0)
        seconds.append(time.process_time() - started)

    ratios = paired_ratios(lambda: _pass(model, ids.split(8)), measure, 3 if quick else 9)
    name = f"HeadCallback, MiniLM-L6, {len(texts)} texts of {ids.shape[1]} tokens"
    yield as_figure(name, ratios, 2.0, 1.3)
    thousand = 1000 * median(seconds) / ids.numel()
    yield Figure("HeadCallback, processor time of a thousand tokens", thousand, "s")
