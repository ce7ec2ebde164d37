"""What a census costs as a function of Python: all that a call does for a batch, in bare passes of it."""

import time
from collections.abc import Iterator

import torch
from figures import Figure
from ratios import as_figure
from shapes import BERT_BASE, MINILM, word_tokenizer

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


def call_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare the passes of ``attnprobe.census``, with its table, with bare passes of its batches."""
    for name, shape, length, bar, aim in CALLS[:2] if quick else CALLS:
        model, tokenizer = shape.model(), word_tokenizer(WORDS)
        generator = torch.Generator().manual_seed(length)
        each, batches = BATCH_TOKENS_CPU // length, 4
        drawn = torch.randint(len(WORDS), (each * batches, length - 2), generator=generator).tolist()
        texts = [" ".join(WORDS[word] for word in text) for text in drawn]
        ids = torch.tensor(tokenizer(texts)["input_ids"])
        assert ids.shape == (each * batches, length)

        parts = ids.split(each)

        def bare(model=model, parts=parts) -> float:
            with torch.inference_mode():
                start = time.process_time()
                for some in parts:
                    model(some)
                return time.process_time() - start

        def call(model=model, texts=texts, tokenizer=tokenizer) -> float:
            watch = Watch()
            attnprobe.census(model, texts, tokenizer=tokenizer, progress=watch)
            return time.process_time() - watch.began

        call()
        before, ratios = bare(), []
        for _ in range(3 if quick else 9):
            spent, after = call(), bare()
            ratios.append(2 * spent / (before + after))
            before = after
        yield as_figure(f"attnprobe.census(), {name}", ratios, bar, aim)
