"""``importance --method lrp`` from command line to table: every kind of task, states, refusals."""

import copy
import io

import every_type
import numpy as np
import pandas
import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import attnprobe
from attnprobe import AttnprobeError
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


@pytest.fixture(scope="session")
def with_head(tiny, tmp_path_factory):
    """Save a tiny model with a trained head of some kind."""

    def save(name, auto):
        body, tokenizer = tiny(name)
        config = copy.deepcopy(body.config)
        if config.is_encoder_decoder:
            config.decoder_start_token_id = 0
        torch.manual_seed(7)
        model = getattr(transformers, auto).from_config(config)
        model.base_model.load_state_dict(body.state_dict(), strict=False)
        folder = tmp_path_factory.mktemp("headed") / name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


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


@pytest.mark.parametrize(
    ("name", "auto", "objective", "attentions"),
    [
        ("bert", "AutoModelForMaskedLM", "masked-lm", [None]),
        ("gpt2", "AutoModelForCausalLM", "causal-lm", [None]),
        ("marian", "AutoModelForSeq2SeqLM", "seq2seq", ["encoder", "decoder", "cross"]),
    ],
)
def test_objectives(invoke, with_head, tmp_path, name, auto, objective, attentions):
    path = tmp_path / "pairs.tsv"
    rows = ["source\tgoal", "the dog ran\ta cat walks", "a bird ran over it\tthe bird", "is it late ?\tnever"]
    path.write_text("\n".join(rows) + "\n")
    data = ["-d", path, "--text-column", "source"]
    data += ["--target-column", "goal"] if objective == "seq2seq" else []
    code, out, error = invoke("importance", with_head(name, auto), *data, *LRP)
    assert code == 0, error
    found = frame(out)
    assert set(found["objective"]) == {objective}
    assert set(found["method"]) == {"lrp"}
    kinds = list(found["attention"].unique()) if "attention" in found else [None]
    assert kinds == attentions
    assert (found["n"] == 3).all()
    assert (found["relevance_abs"] > 0).all()
    assert (found["relevance"].abs() <= found["relevance_abs"] * (1 + 1e-6)).all()
    groups = found.groupby(["attention", "layer"] if "attention" in found else "layer")
    np.testing.assert_allclose(groups["relevance_share"].sum(), 1, rtol=1e-5)


@pytest.mark.slow
def test_other_name_of_measure(invoke, refused, classifier, reviews):
    sides = ["--in-domain", reviews / "first.tsv", "--out-domain", reviews / "second.tsv"]
    one, other = (
        invoke("correlate", classifier, *sides, name, "lrp")[:2] for name in ("--measure", "--method")
    )
    assert one == other
    assert one[0] == 0
    assert "nonsense" in refused("correlate", classifier, *sides, "--method", "nonsense")
    assert "relevance is of the logits" in refused(
        "correlate", classifier, *sides, "--method", "lrp", "--metric", "loss"
    )
    texts = {"in_domain": reviews / "first.tsv", "out_domain": reviews / "second.tsv", "model": classifier}
    found = attnprobe.correlate(**texts, method="lrp")
    assert found.to_csv() == one[1]
    with pytest.raises(AttnprobeError, match="method is another name of measure; give one of them"):
        attnprobe.correlate(**texts, method="lrp", measure="lrp")
    with pytest.raises(
        AttnprobeError, match="measure must be one of gradient, ig, lrp, ablation, not 'nonsense'"
    ):
        attnprobe.correlate(**texts, method="nonsense")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "command", [["importance", *LRP], ["prune", "--by", "lrp"], ["correlate", "--method", "lrp"]]
)
def test_refused_by_name(invoke, refused, tiny, text, tmp_path, command):
    """BLOOM's activation has a backward pass of its own, which no rule reaches."""
    _, tokenizer = tiny("bert")
    every_type.build("bloom", vocab_size=len(tokenizer)).save_pretrained(tmp_path / "bloom")
    tokenizer.save_pretrained(tmp_path / "bloom")
    sides = ["--in-domain", text, "--out-domain", text]
    data = sides if command[0] == "correlate" else ["-d", text]
    says = refused(command[0], tmp_path / "bloom", *data, *command[1:], "--objective", "representation")
    assert "The relevance (lrp) of the heads of 'bloom' can't be told" in says
    assert says.endswith("use gradient instead.")
    if command[0] == "importance":
        assert invoke("importance", tmp_path / "bloom", *data, "--objective", "representation")[0] == 0
