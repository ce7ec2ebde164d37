"""Train a small classifier that anybody can have: is a sentence told, or reported?

    python examples/train_classifier.py

takes the encoder and the sentences that ship with attnprobe, needs no download, and is done in half a
minute. Half of the sentences (passages of stories, and lines of reports and manuals) teach the classifier
which is which. It writes

- ``genre/``: the checkpoint, an ordinary one of transformers with its tokenizer,
- ``genre.csv``: the other half of the sentences, with columns ``text`` and ``label``.

`attnprobe importance genre -d genre.csv` then says which of its heads matter.
"""

import csv
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

LABELS = ["narrative", "technical"]
BATCH = 16
PACKAGE = files("attnprobe")


def sentences() -> list[tuple[str, str]]:
    """Give the sentences that ship with attnprobe, each with the name of the file that it lies in."""
    found = []
    for label in LABELS:
        lines = (PACKAGE / "corpus" / "sentences" / f"{label}.txt").read_text(encoding="utf-8")
        found += [(line, label) for line in lines.splitlines() if line.strip()]
    return found


def train(model: torch.nn.Module, tokenizer: Any, examples: list[tuple[str, str]], steps: int) -> None:
    """Run AdamW over random batches, with a learning rate that falls linearly to zero."""
    ids = tokenizer([text for text, _ in examples], truncation=True, max_length=64)["input_ids"]
    tokens = [torch.tensor(sequence) for sequence in ids]
    classes = torch.tensor([LABELS.index(label) for _, label in examples])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for _ in range(steps):
        chosen = torch.randint(len(examples), (BATCH,), generator=generator)
        ids = pad_sequence([tokens[place] for place in chosen], batch_first=True, padding_value=-1)
        mask = (ids >= 0).long()
        loss = model(input_ids=ids.clamp(min=0), attention_mask=mask, labels=classes[chosen]).loss
        loss.backward()
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
    examples = sentences()
    train(model, tokenizer, examples[::2], steps)

    output = Path(folder)
    model.save_pretrained(output / "genre")
    tokenizer.save_pretrained(output / "genre")
    with (output / "genre.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *examples[1::2]])
    print(f"wrote {output / 'genre'} and {output / 'genre.csv'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
