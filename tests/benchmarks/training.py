"""What ``HeadCallback`` costs each time that it measures, in forward passes over its texts."""

import time
from collections.abc import Iterator

import numpy as np
import torch
from figures import Figure
from ratios import as_figure, paired_ratios
from shapes import MINILM, word_tokenizer

import attnprobe

TEXTS, WORDS = 64, 126


def callback_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare a measurement, the dry run and what is tokenised included, with the bare forward pass."""
    draw = np.random.default_rng(0)
    words = [f"word{number}" for number in range(500)]
    texts = [" ".join(draw.choice(words, WORDS)) for _ in range(TEXTS)]
    tokenizer, model = word_tokenizer(texts), MINILM.model()
    ids = torch.tensor(tokenizer(texts)["input_ids"])
    callback = attnprobe.HeadCallback(texts, batch_tokens=8 * ids.shape[1])
    seconds: list[float] = []

    def bare() -> None:
        with torch.inference_mode():
            for part in ids.split(8):
                model(part)

    def measure() -> None:
        callback.begin(0)
        started = time.process_time()
        callback.measure(model, tokenizer, 0)
        seconds.append(time.process_time() - started)

    ratios = paired_ratios(bare, measure, 3 if quick else 9)
    yield as_figure(f"HeadCallback, MiniLM-L6, {TEXTS} texts of {ids.shape[1]} tokens", ratios, 2.0, 1.3)
    yield Figure(
        "HeadCallback, processor time of a thousand tokens",
        1000 * float(np.median(seconds)) / ids.numel(),
        "s",
    )
