"""Train a small classifier: is a sentence from a story, or from a report?

    python examples/train_classifier.py
    attnprobe importance genre -d genre.csv

takes the encoder and the sentences that ship with attnprobe, needs no download, and runs for half a minute.
Half of the sentences (passages of stories, and lines of reports and manuals) are training data. It writes

- ``genre/``: the checkpoint, an ordinary one of transformers with its tokenizer,
- ``genre.csv``: the other half of the sentences, with columns ``text`` and ``label``.
"""

import csv
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

LABELS = ["narrative", "technical"]
BATCH = 16
PACKAGE = files("attnprobe")


def read_sentences() -> list[tuple[str, int]]:
    """Read the sentences that ship with attnprobe, each with the number of its label."""
    examples = []
    for number, label in enumerate(LABELS):
        lines = (PACKAGE / "corpus" / "sentences" / f"{label}.txt").read_text(encoding="utf-8")
        examples += [(line, number) for line in lines.splitlines() if line.strip()]
    return examples


def train(model: Any, tokenizer: Any, examples: Sequence[tuple[str, float]], steps: int = 60) -> None:
    """Run AdamW over random batches, with a learning rate that falls linearly to zero."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(steps):
        places = torch.randint(len(examples), (BATCH,), generator=generator)
        texts, labels = zip(*(examples[place] for place in places.tolist()), strict=True)
        inputs = tokenizer(list(texts), padding=True, truncation=True, max_length=64, return_tensors="pt")
        model(**inputs, labels=torch.tensor(labels)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()


def main(folder: str = ".", *, steps: int = 60) -> None:
    """Train the classifier, and write it and the sentences that it has not seen into a folder."""
    torch.set_num_threads(1)  # sums in one order: whoever runs this gets the same classifier
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the classifier's head is new, and is about to be trained
    torch.manual_seed(0)
    demo = str(PACKAGE / "demo")
    tokenizer = AutoTokenizer.from_pretrained(demo)
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    model = AutoModelForSequenceClassification.from_pretrained(demo, dtype=torch.float32, **names)
    examples = read_sentences()
    train(model, tokenizer, examples[::2], steps)
    output = Path(folder)
    model.save_pretrained(output / "genre")
    tokenizer.save_pretrained(output / "genre")
    with (output / "genre.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows((text, LABELS[number]) for text, number in examples[1::2])
    print(f"wrote {output / 'genre'} and {output / 'genre.csv'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
