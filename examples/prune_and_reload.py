"""Prune a classifier to half of its heads, load it again, and compare its answers.

    python examples/prune_and_reload.py

trains a small classifier (see ``train_classifier.py``), removes the half of its heads that matters least,
once with weights at zero and once physically, and loads both again. Everything goes into the folder
``pruning``, or the one that is named.
"""

import sys
from pathlib import Path
from typing import Any

import pandas
import torch
import train_classifier
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnprobe


def classify(model: Any, tokenizer: Any, texts: list[str]) -> list[str]:
    """Classify texts one by one."""
    with torch.inference_mode():
        logits = [model(**tokenizer(text, return_tensors="pt", truncation=True)).logits for text in texts]
    return [model.config.id2label[int(scores.argmax())] for scores in logits]


def main(folder: str = "pruning", *, steps: int = 60) -> None:
    """Train, prune, load and compare."""
    here = Path(folder)
    here.mkdir(exist_ok=True)
    train_classifier.main(folder, steps=steps)
    genre, zeroed, smaller = (str(here / name) for name in ("genre", "zeroed", "smaller"))
    frame = pandas.read_csv(here / "genre.csv")
    options = {"share": 0.5, "step": 0.25, "random_orders": 2, "overwrite": True}
    curve = attnprobe.prune(genre, frame, text_column="text", label_column="label", save=zeroed, **options)
    attnprobe.prune(
        genre, frame, text_column="text", label_column="label", save=smaller, physical=True, **options
    )
    print(*curve.notes, sep="\n")

    tokenizer = AutoTokenizer.from_pretrained(zeroed)
    models = {
        "all heads": AutoModelForSequenceClassification.from_pretrained(genre),
        "half of them, weights at zero": AutoModelForSequenceClassification.from_pretrained(zeroed),
        "half of them, physically smaller": attnprobe.load_pruned(smaller),
    }
    for name, model in models.items():
        share = (frame["label"] == classify(model, tokenizer, list(frame["text"]))).mean()
        million = model.num_parameters() / 1e6
        print(f"{name}: {share:.3f} right, {million:.2f} million parameters")


if __name__ == "__main__":
    main(*sys.argv[1:2])
