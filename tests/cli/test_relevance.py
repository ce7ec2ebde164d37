"""``importance --method lrp`` from command line to table: every kind of task, states, refusals."""

import io

import numpy as np
import pandas
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.relevance import Relevance

KEYS = ["model", "dataset", "objective", "method"]
NUMBERS = [
    "n", "relevance", "relevance_se", "relevance_abs", "relevance_abs_se", "relevance_share",
    "relevance_share_se",
]  # fmt: skip
LRP = ("--method", "lrp")


def frame(out):
    return pandas.read_csv(io.StringIO(out))


def by_hand(folder, path):
    """Explain the predicted class against the runner-up, text by text: (text, layer, head)."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval().requires_grad_(False)
    tokenizer, found = AutoTokenizer.from_pretrained(folder), []
    for text in pandas.read_csv(path, sep="\t")["text"]:
        xi = torch.ones(1, 3, 4, requires_grad=True)
        with Relevance(), gate_attention(model.bert) as gates:
            gates.set(xi)
            best = model(**tokenizer(text, return_tensors="pt")).logits.topk(2).values[0]
            found.append(torch.autograd.grad(best[0] - best[1], xi)[0][0].numpy())
    return np.stack(found)


def test_columns(invoke, classifier, reviews):
    code, out, error = invoke("importance", classifier, "-d", reviews / "all.tsv", *LRP)
    assert code == 0, error
    found, values = frame(out), by_hand(classifier, reviews / "all.tsv")
    assert list(found) == [*KEYS, "layer", "head", *NUMBERS]
    assert (set(found["objective"]), set(found["method"]), set(found["n"])) == (
        {"classification"}, {"lrp"}, {12},
    )  # fmt: skip
    size = np.abs(values)
    for name, some in (("relevance", values), ("relevance_abs", size)):
        np.testing.assert_allclose(found[name], some.mean(0).ravel(), rtol=1e-4, atol=1e-6)
        error = some.std(0, ddof=1).ravel() / np.sqrt(12)
        np.testing.assert_allclose(found[f"{name}_se"], error, rtol=1e-4, atol=1e-6)
    share = size.mean(0) / size.mean(0).sum(-1, keepdims=True)
    np.testing.assert_allclose(found["relevance_share"], share.ravel(), rtol=1e-4)
    assert (found["relevance_share_se"] > 0).all()
