"""A loaded model is asked in evaluation mode, by one thread at a time; training goes on as without."""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification

import attnprobe
from attnprobe.model.borrowing import borrow
from attnprobe.model.load import load_checkpoint

TEXTS = ["the river bank was slow", "a bird ran over the red house", "stone", "the dog and the cat"]
LABELS = [0, 1, 0, 1]


@pytest.fixture
def classifier(tiny):
    """Make a tiny classifier with much dropout, in its head too, in train mode; and its tokenizer."""
    body, tokenizer = tiny("bert")
    config = copy.deepcopy(body.config)
    config.classifier_dropout = config.hidden_dropout_prob = 0.4
    torch.manual_seed(5)
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(body.state_dict(), strict=False)
    torch.nn.init.normal_(model.classifier.weight)
    return model.train(), tokenizer


COMMANDS = {
    "importance": lambda model, tokenizer: attnprobe.importance(model, TEXTS, LABELS, tokenizer=tokenizer),
    "ablate": lambda model, tokenizer: attnprobe.ablate(model, TEXTS, LABELS, tokenizer=tokenizer),
    "census": lambda model, tokenizer: attnprobe.census(model, TEXTS, tokenizer=tokenizer),
}
MEASURES = {"importance": "importance", "ablate": "score", "census": "entropy"}


@pytest.mark.parametrize("command", COMMANDS)
class TestTraining:
    def test_a_model_in_train_mode_is_asked_in_evaluation_mode(self, classifier, command):
        """What it gives is what the model gives that was put into evaluation mode by hand."""
        model, tokenizer = classifier
        values = COMMANDS[command](model, tokenizer)[MEASURES[command]]
        assert all(part.training for part in model.modules())
        expected = COMMANDS[command](model.eval(), tokenizer)[MEASURES[command]]
        np.testing.assert_array_equal(values, expected)

    def test_steps_go_on_bit_for_bit(self, classifier, command):
        """Losses and weights of a run with a command after every step are those of a run without."""
        model, tokenizer = classifier
        runs = [(copy.deepcopy(model), probing) for probing in (False, True)]
        losses: list[list[float]] = []
        for trained, probing in runs:
            torch.manual_seed(7)
            optimizer = torch.optim.SGD(trained.parameters(), 0.1)
            losses.append([])
            for text, label in zip(TEXTS, LABELS, strict=True):
                given = tokenizer(text, return_tensors="pt")
                loss = trained(**given, labels=torch.tensor([label])).loss
                losses[-1].append(loss.item())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if probing:
                    COMMANDS[command](trained, tokenizer)
        assert losses[0] == losses[1]
        plain, probed = (trained.state_dict() for trained, _ in runs)
        assert all(torch.equal(plain[key], probed[key]) for key in plain)

    def test_mixed_precision_of_the_caller_is_left(self, classifier, command):
        model, tokenizer = classifier
        expected = COMMANDS[command](model, tokenizer)[MEASURES[command]]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values = COMMANDS[command](model, tokenizer)[MEASURES[command]]
            assert torch.is_autocast_enabled("cpu")
        np.testing.assert_array_equal(values, expected)


def test_random_numbers_that_are_drawn_meanwhile(tiny):
    """No measurement draws of torch today, but models of others may."""
    before = torch.get_rng_state()
    with borrow([tiny("bert")[0]]):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_random_numbers_of_a_named_model(saved):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load_checkpoint(str(saved("bert")))
    assert torch.equal(torch.get_rng_state(), before)
    attnprobe.importance("demo", TEXTS[:2])
    assert torch.equal(torch.get_rng_state(), before)


def test_two_threads_on_one_model(tiny):
    """Both get the table that one thread alone gets, and the model is left as it was found."""
    model, tokenizer = tiny("bert")
    before = model.config._attn_implementation
    alone = [_importance(model, tokenizer), _entropy(model, tokenizer)]
    meeting = Barrier(2)

    def work(command):
        meeting.wait()
        return [command(model, tokenizer) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, [_importance, _entropy]))
    for each, expected in zip(results, alone, strict=True):
        for values in each:
            np.testing.assert_array_equal(values, expected)
    assert model.config._attn_implementation == before


def _importance(model, tokenizer):
    return attnprobe.importance(model, TEXTS, tokenizer=tokenizer)["importance"]


def _entropy(model, tokenizer):
    return attnprobe.census(model, TEXTS, statistics=["entropy"], tokenizer=tokenizer)["entropy"]
