"""The same question asked by a command line and by a function, and a classifier to ask about."""

import copy
import itertools
import json
import warnings
from pathlib import Path

import pytest
import torch
from transformers import BertForSequenceClassification

import attnprobe
from attnprobe.cli.app import run
from attnprobe.table.formats.json import render

LINES = [
    "the river bank was slow , and the dog ran to the water .",
    "stone",
    "is it late ?",
    "the parcel came by day , and she walks quickly between the red house and the green house .",
]
#: Texts and their classes.
REVIEWS = [
    ("the river bank was slow", "bad"),
    ("a bird ran over the red house", "bad"),
    ("the dog and the cat", "so-so"),
    ("never stop by the river at night", "so-so"),
    ("he and she walk to the train stop , never by night", "good"),
    ("the parcel came early", "good"),
    ("light", ""),
    ("a cat ran under the green house", "bad"),
    ("blue water and red light", "so-so"),
    ("quick bird", "good"),
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("\n".join(map("\t".join, [("review", "stars"), *REVIEWS])) + "\n")
    return path


@pytest.fixture(scope="session")
def classifier(tiny, tmp_path_factory):
    """Save the tiny BERT with a classification head."""
    body, tokenizer = tiny("bert")
    config = copy.deepcopy(body.config)
    config.id2label = dict(enumerate(("bad", "so-so", "good")))
    config.label2id = {name: number for number, name in config.id2label.items()}
    torch.manual_seed(5)
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(body.state_dict())
    torch.nn.init.normal_(model.classifier.weight, std=0.5)
    folder = tmp_path_factory.mktemp("classifier") / "three"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def as_words(name, options):
    """Spell the keywords of a function as the words of its command."""
    options = dict(options)
    models = options.pop("model", [])
    words = [name, *options.pop("tables", ()), *(models if isinstance(models, list) else [models])]
    for keyword, value in options.items():
        option = {"texts": "--dataset", "rank_texts": "--rank-data"}.get(keyword)
        option = option or f"--{keyword.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not False:
            words += [option, ",".join(value) if isinstance(value, list) else value]
    return list(map(str, words))


@pytest.fixture
def by_command(tmp_path, capfd, monkeypatch):
    """Ask a command; give its table as json has it, and what it said."""
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    number = itertools.count()

    def ask(name, options):
        path = tmp_path / f"command {next(number)}.json"
        capfd.readouterr()
        code = run([*as_words(name, options), "--format", "json", "-o", str(path)])
        out, error = capfd.readouterr()
        assert (code, out) == (0, ""), error
        assert all(line.startswith("attnprobe: ") for line in error.splitlines())
        lines = [line.removeprefix("attnprobe: ") for line in error.splitlines()]
        table = json.loads(path.read_text())
        # Relative to the current folder, where it lies in it.
        wrote = next(
            place
            for place, line in enumerate(lines)
            if line.startswith("wrote ") and Path(line.removeprefix("wrote ")).resolve() == path.resolve()
        )
        assert lines[wrote + 1 :] == table["notes"]  # which a function leaves in the table
        return table, lines[:wrote]

    return ask


@pytest.fixture
def by_function():
    """Ask a function; give its table as json would have it, and its warnings."""

    def ask(name, options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = getattr(attnprobe, name)(**options)
        assert {one.category for one in caught} <= {attnprobe.AttnprobeWarning}
        return json.loads(render(table)), [str(one.message) for one in caught]

    return ask


@pytest.fixture
def same(by_command, by_function, monkeypatch):
    """Ask both, assert that they answer alike, and give the answer."""
    # What is measured of the machine differs from run to run.
    monkeypatch.setattr("attnprobe.survey.diagnosis._time_batch", lambda *_: 1.0)

    def ask(name, options, function_options=None):
        written, said = by_command(name, options)
        given, warned = by_function(name, options if function_options is None else function_options)
        commands = []
        for table in (written, given):
            table["provenance"].pop("created", None)
            commands.append(table["provenance"].pop("command"))
        assert commands[0][0] == "attnprobe"
        assert commands[1] == f"attnprobe.{name}"
        assert given == written
        assert warned == said
        return written, said

    return ask
