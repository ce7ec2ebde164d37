"""Compare pruning orders: what does each cost, with 60 % of the heads off?

    python examples/compare_orders.py [TASK ...]

trains the encoder that ships with attnprobe on three tasks: is a sentence from a story or a report
(``genre``), does it contain a comma (``comma``), how many words does it have (``words``). The fourth task is
masked language modelling (``masked-lm``). Half of the sentences train, a quarter ranks, a quarter is scored.
It prints the loss with 60 % of the heads off less that of the whole model, with its standard error over
examples; for random orders the mean of 19 and their standard deviation.
"""

import sys
import tempfile
import warnings
from typing import Any

import pandas
import torch
from train_classifier import PACKAGE, read_sentences, train
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

import attnprobe

ORDERS = ("gradient", "gradient-normed", "fisher", "ig", "lrp", "ablation")
TASKS = ("genre", "comma", "words", "masked-lm")


def label_sentence(task: str, text: str, genre: int) -> float:
    """Give the class of a sentence, or the number that a model is to predict."""
    return {"genre": genre, "comma": int("," in text), "words": len(text.split()) / 10}[task]


def train_on(task: str, examples: list[tuple[str, float]], folder: str) -> None:
    """Train the encoder with a new head, and write the checkpoint."""
    demo, labels = str(PACKAGE / "demo"), 1 if task == "words" else 2  # a number, or one of two classes
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(demo)
    model = AutoModelForSequenceClassification.from_pretrained(demo, dtype=torch.float32, num_labels=labels)
    train(model, tokenizer, examples)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def prune(task: str, *data: Any) -> dict[str, str]:
    """Prune in every order, and in random ones beside the first; give what each order costs."""
    metric = "mse" if task == "words" else "loss"
    tables = [
        attnprobe.prune(*data, by=order, step=0.6, metric=metric, random_orders=0 if place else 19)
        for place, order in enumerate(ORDERS)
    ]
    rows = pandas.concat([table.to_pandas() for table in tables])
    rows = rows[rows["step"] == 1].set_index("criterion")
    random = rows.loc["random", "delta"]
    costs = {name: f"{rows['delta'][name]:.2f} ± {rows['delta_se'][name]:.2f}" for name in ORDERS}
    return {"random": f"{random.mean():.2f} ± {random.std():.2f}", **costs}


def measure(task: str) -> dict[str, str]:
    """Train on one half of the sentences, and prune on the other."""
    if task == "masked-lm":
        return prune(task, "demo", [text for text, _ in read_sentences()[1::2]])
    examples = [(text, label_sentence(task, text, genre)) for text, genre in read_sentences()]
    with tempfile.TemporaryDirectory() as folder:
        train_on(task, examples[::2], folder)
        return prune(task, folder, *map(list, zip(*examples[1::2], strict=True)))


def main(*tasks: str) -> None:
    """Print the table, with a column for each task that is named, or for all."""
    torch.set_num_threads(1)  # sums in one order: whoever runs this gets the same figures
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the heads are new, and are about to be trained
    warnings.simplefilter("ignore", attnprobe.AttnprobeWarning)  # which say what is chosen
    print(pandas.DataFrame({task: measure(task) for task in tasks or TASKS}).to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
