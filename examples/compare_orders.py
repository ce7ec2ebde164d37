"""Compare orders in which heads may go: what does each cost, with 60 % of the heads off?

    python examples/compare_orders.py [TASK ...]

takes the encoder and the sentences that ship with attnprobe, needs no download, and is done in some
minutes; one task takes a sixth. It teaches the encoder five tasks: is a sentence told or reported
(``genre``, twice, with other random numbers), does it hold a comma (``comma``), how many words has it
(``words``), and which part of speech is each word (``tags``). The sixth is the encoder's own, to fill in
hidden tokens (``masked-lm``). Half of the sentences teach; a quarter orders the heads, and a quarter is
scored.

What is printed is the loss with 60 % of the heads off less that of the whole model, a row for each order,
with its standard error over examples; for random orders the mean of 19 and their standard deviation.
"""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pandas
import torch
from train_classifier import BATCH, PACKAGE, sentences
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
from transformers.utils import logging

import attnprobe

ORDERS = ("gradient", "gradient-normed", "fisher", "ig", "lrp", "ablation")
SHARE = 0.6
#: What is taught: the task, the seed of what is drawn, the metric of the loss.
TASKS = (
    ("genre", 0, "loss"), ("genre", 1, "loss"), ("comma", 0, "loss"), ("words", 0, "mse"),
    ("tags", 0, "loss"), ("masked-lm", 0, "loss"),
)  # fmt: skip
Examples = list[tuple[Any, Any]]


def read_tags() -> Examples:
    """Give the words of the sentences of the treebank in the package, and their parts of speech."""
    text = (PACKAGE / "corpus" / "sentences" / "treebank.conllu").read_text(encoding="utf-8")
    found = []
    for block in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        found.append(([row[1] for row in rows], [row[3] for row in rows]))
    return found


def read_task(task: str) -> Examples:
    """Give the examples of a task: texts with labels, or words with tags."""
    texts = [text for text, _ in sentences()]
    if task == "genre":
        return [(text, int(label == "technical")) for text, label in sentences()]
    if task == "comma":
        return [(text, int("," in text)) for text in texts]
    if task == "words":
        return [(text, len(text.split()) / 10) for text in texts]
    if task == "tags":
        return read_tags()
    return [(text, None) for text in texts]


def build(task: str, examples: Examples) -> Any:
    """Build the encoder with a new head for a task."""
    demo = str(PACKAGE / "demo")
    if task == "tags":
        names = sorted({tag for _, tags in examples for tag in tags})
        labels = {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
        return AutoModelForTokenClassification.from_pretrained(demo, dtype=torch.float32, **labels)
    more = {"num_labels": 1, "problem_type": "regression"} if task == "words" else {"num_labels": 2}
    return AutoModelForSequenceClassification.from_pretrained(demo, dtype=torch.float32, **more)


def teach(task: str, model: Any, tokenizer: Any, examples: Examples, seed: int, steps: int) -> None:
    """Run AdamW over random batches, with a learning rate that falls linearly to zero."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(steps):
        chosen = [examples[place] for place in torch.randint(len(examples), (BATCH,), generator=generator)]
        options = {"padding": True, "truncation": True, "max_length": 64, "return_tensors": "pt"}
        inputs = tokenizer([one for one, _ in chosen], is_split_into_words=task == "tags", **options)
        if task == "tags":
            labels = torch.full_like(inputs["input_ids"], -100)
            for row, (_, tags) in enumerate(chosen):
                words = inputs.word_ids(row)
                for place, word in enumerate(words):
                    if word is not None and word not in words[:place]:  # the first token of each
                        labels[row, place] = model.config.label2id[tags[word]]
        else:
            labels = torch.tensor([label for _, label in chosen])
        model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels
        ).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    model.eval()


def prune_by_each(*data: Any, **how: Any) -> list[attnprobe.HeadTable]:
    """Prune in every order, and in random ones beside the first."""
    return [
        attnprobe.prune(*data, by=order, **how, random_orders=0 if place else None)
        for place, order in enumerate(ORDERS)
    ]


def measure(task: str, seed: int, metric: str, steps: int) -> dict[str, str]:
    """Teach a task, order the heads in every way, and give what each order costs."""
    torch.manual_seed(seed)
    examples = read_task(task)
    tokenizer = AutoTokenizer.from_pretrained(str(PACKAGE / "demo"))
    how: dict[str, Any] = {"step": SHARE, "metric": metric, "progress": False}
    held = examples[1::2]
    if task == "masked-lm":
        tables = prune_by_each("demo", [text for text, _ in held], **how)
    else:
        model = build(task, examples)
        teach(task, model, tokenizer, examples[::2], seed, steps)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            if task == "tags":
                data = Path(folder) / "tags.conll"
                blocks = ["\n".join(map("\t".join, zip(*one, strict=True))) for one in held]
                data.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
                tables = prune_by_each(folder, str(data), **how)
            else:
                texts, labels = zip(*held, strict=True)
                tables = prune_by_each(folder, list(texts), list(labels), **how)
    rows = pandas.concat([table.to_pandas() for table in tables])
    rows = rows[rows["step"] == 1].set_index("criterion")
    random = rows.loc["random", "delta"]
    found = {"random": f"{random.mean():.2f} ± {random.std():.2f}"}
    return found | {name: f"{rows['delta'][name]:.2f} ± {rows['delta_se'][name]:.2f}" for name in ORDERS}


def main(*wanted: str, steps: int = 60) -> None:
    """Print the table, with a column for each task that is named, or for all."""
    torch.set_num_threads(1)  # sums in one order: whoever runs this gets the same figures
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the heads are new, and are about to be trained
    warnings.simplefilter("ignore", attnprobe.AttnprobeWarning)  # which say what is chosen
    names = [
        f"{task} {seed}" if (task, 1 - seed) in {one[:2] for one in TASKS} else task
        for task, seed, _ in TASKS
    ]
    chosen = [place for place, (task, *_) in enumerate(TASKS) if not wanted or task in wanted]
    names, columns = [names[place] for place in chosen], [measure(*TASKS[place], steps) for place in chosen]
    print(f"{'order':16}" + "".join(f"{name:>14}" for name in names))
    for order in ("random", *ORDERS):
        print(f"{order:16}" + "".join(f"{column[order]:>14}" for column in columns))


if __name__ == "__main__":
    main(*sys.argv[1:])
