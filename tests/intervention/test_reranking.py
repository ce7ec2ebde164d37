"""Rerankers against plain torch, pytrec_eval, finite differences and sentence-transformers' CrossEncoder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import BertConfig

import attnprobe
from attnprobe.corpus.sources.document import Document, Passage, Query
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.gradient import gradient_importance, sum_derivatives
from attnprobe.intervention.trials import run_trials
from attnprobe.model.embedding import PairScoring
from attnprobe.model.load import load_checkpoint
from attnprobe.model.location import LoadOptions
from attnprobe.model.task_heads import CLASSIFICATION
from attnprobe.run.examples import DRAWN, CandidatePairs
from attnprobe.sums.documents import in_second_half

SHAPE = 3, 4
WORDS = ["river", "bank", "slow", "bird", "red", "house", "dog", "cat", "stone", "late", "train", "night"]
DRAW = np.random.default_rng(4)
TEXTS = [" ".join(DRAW.choice(WORDS, 2 + number % 4, replace=False)) for number in range(40)]
PASSAGES = {f"d{number:02d}": text for number, text in enumerate(TEXTS[10:])}
#: Grades, passages that don't answer, one that is the query itself, one that is nowhere, and some found.
QUERIES: dict[str, tuple[str, dict[str, int], tuple[str, ...]]] = {
    "q0": (TEXTS[0], {"d01": 1, "d02": 0, "d03": 0}, ()),
    "q1": (TEXTS[1], {"d04": 2, "d05": 1, "d06": 0, "gone": 1}, tuple(f"d{one}" for one in range(10, 24))),
    "d07": (TEXTS[2], {"d08": 1, "d07": 1}, ("d09", "d07", "nowhere")),
    "q3": (TEXTS[3], {"gone": 1, "d02": 0}, ()),
    "q4": (TEXTS[4], {"d03": 1, "d01": 0, "d25": 3}, ("d26", "d27")),
}
SEARCH = [
    *(
        Document(text, label=Query(name, tuple(judged.items()), listed), role="query")
        for name, (text, judged, listed) in QUERIES.items()
    ),
    *(Document(text, label=Passage(name), role="document") for name, text in PASSAGES.items()),
]
SCORED = ["q0", "q1", "d07", "q4"]
NEEDS = ("ndcg", "mrr", "recall", "loss")
SOME = [(0, 1), (1, 3), (2, 2)]


def list_candidates(name: str) -> dict[str, int]:
    _, judged, listed = QUERIES[name]
    every = dict.fromkeys(listed, 0) | judged
    return {one: grade for one, grade in every.items() if one in PASSAGES and one != name}


@torch.no_grad()
def score_by_hand(model: Any, tokenizer: Any, name: str) -> dict[str, torch.Tensor]:
    """Give the logit of each candidate of a query, each pair alone."""
    pairs = {
        one: tokenizer(QUERIES[name][0], PASSAGES[one], return_tensors="pt") for one in list_candidates(name)
    }
    return {one: model(**pair).logits[0, 0] for one, pair in pairs.items()}


def compute_losses(model: Any, tokenizer: Any) -> list[list[float]]:
    return [
        [
            binary_cross_entropy_with_logits(
                logit, torch.tensor(float(list_candidates(name)[one] > 0)).to(logit)
            ).item()
            for one, logit in score_by_hand(model, tokenizer, name).items()
        ]
        for name in SCORED
    ]


def evaluate(model: Any, tokenizer: Any) -> dict[str, list[float]]:
    run = {
        name: {
            one: torch.sigmoid(logit).item() for one, logit in score_by_hand(model, tokenizer, name).items()
        }
        for name in SCORED
    }
    judged = {name: list_candidates(name) for name in SCORED}
    found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10"}).evaluate(run)
    tops = {
        query: dict(sorted(scores.items(), key=lambda one: -one[1])[:10]) for query, scores in run.items()
    }
    first = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(tops)
    return {
        "ndcg": [found[name]["ndcg_cut_10"] for name in SCORED],
        "mrr": [first[name]["recip_rank"] for name in SCORED],
        "recall": [found[name]["recall_10"] for name in SCORED],
        "loss": [float(np.mean(one)) for one in compute_losses(model, tokenizer)],
    }  # fmt: skip


def without(*heads: tuple[int, int]) -> np.ndarray:
    cut = np.ones(SHAPE, bool)
    for head in heads:
        cut[head] = False
    return cut


@pytest.fixture(scope="module")
def reranker(headed: Any) -> Any:
    """A classifier whose configuration still names what its encoder was saved from."""
    found = headed("bert", "regression", double=True)
    found.model.config.architectures = ["BertForMaskedLM"]
    return found


def test_heads_off_by_hand(reranker: Any, benched: Any, cut_by_hand: Any):
    cuts = [without((2, 3)), without((0, 1), (1, 0), (1, 2))]
    with benched(reranker, SEARCH, "retrieval", batch_tokens=40) as bench:
        assert bench.objective.name == "reranking"
        assert bench.record["task"]["activation"] == "Sigmoid"
        found = run_trials(bench, cuts, NEEDS)
        halves = [run_trials(bench.half(side), [], NEEDS).untouched for side in (False, True)]
        kept = bench.objective.list_kept(NEEDS)
    assert sorted(set(kept)) == ["entropy", "score"]
    rows = []
    for cut, outcome in zip([without(), *cuts], [found.untouched, *found.cuts], strict=True):
        expected = evaluate(cut_by_hand(reranker.model, cut.astype(float)), reranker.tokenizer)
        rows.append(expected["ndcg"])
        for name in NEEDS:
            np.testing.assert_allclose(outcome[name], expected[name], atol=1e-6, err_msg=name)
    assert not np.allclose(rows[0], rows[2])
    second = in_second_half(np.arange(4))
    for side, half in enumerate(halves):
        np.testing.assert_allclose(half["loss"], found.untouched["loss"][second == bool(side)])


def test_derivatives(reranker: Any, benched: Any, cut_by_hand: Any):
    """The mean over pairs is the derivative of the mean loss of the queries."""

    def collect(masks: np.ndarray) -> list[np.ndarray]:
        found = compute_losses(cut_by_hand(reranker.model, masks), reranker.tokenizer)
        return [np.array(one) / (len(one) * len(SCORED)) for one in found]

    whole, sizes, step = [], [], 1e-4
    for head in SOME:
        near, far = np.ones(SHAPE), np.ones(SHAPE)
        near[head] += step
        far[head] -= step
        moved = [(one - other) / (2 * step) for one, other in zip(collect(near), collect(far), strict=True)]
        whole.append(sum(one.sum() for one in moved))
        sizes.append(sum(np.abs(one).sum() for one in moved))
    with benched(reranker, SEARCH, "reranking", batch_tokens=40) as bench:
        found = gradient_importance(bench).heads
        pairs = bench.corpus.sequences
        signed = sum_derivatives(
            bench, lambda answer: answer.loss, lambda values, _: Summed(values.sum(0)), Summed, name="signed"
        ).total
    some = tuple(np.transpose(SOME))
    assert pairs == sum(len(list_candidates(name)) for name in SCORED) == found.count.max()
    assert np.abs(whole).max() > 1e-4
    np.testing.assert_allclose(signed[some] / pairs, whole, atol=1e-8)
    np.testing.assert_allclose(found.average[some], sizes, atol=1e-8)


class Summed:
    """A sum of arrays."""

    def __init__(self, total: Any) -> None:
        self.total = total

    def __add__(self, other: "Summed") -> "Summed":
        return Summed(self.total + other.total)

    def arrays(self) -> dict[str, Any]:
        return {"total": self.total}


def test_candidates():
    """What is judged or listed; or drawn from what is named for others, alike in every run."""
    found = CandidatePairs(SEARCH, iter, 0)
    named: dict[str, set[str]] = {}
    for one in found:
        named.setdefault(one.text, set()).add(one.label.name)  # type: ignore[union-attr]
    assert named == {QUERIES[name][0]: set(list_candidates(name)) for name in SCORED}
    assert found.remarks() == [
        "1 query is left out: no passage that answers, or none that does not.",
        "1 answer is left out: not among the passages.",
    ]
    bare = [Document(f"q{n}", label=Query(f"q{n}", ((f"d{n:02d}", 1),))) for n in range(20)]
    passages = [Document(f"p{n}", label=Passage(f"d{n:02d}")) for n in range(30)]
    drawn = CandidatePairs([*bare, *passages], iter, 0)
    first = [(one.text, one.pair, one.label.uses[0].number) for one in drawn]  # type: ignore[union-attr]
    assert len(first) == 20 * (1 + DRAWN) == len(set(first))
    assert sum(one[2] for one in first) == 20
    assert {one[1] for one in first} == {f"p{n}" for n in range(20)}  # none that nobody names
    again = CandidatePairs([*bare[:1], *bare[5:], *passages], iter, 0)
    assert len([*again]) == 16 * (1 + 15)
    other = CandidatePairs([*bare, *passages], iter, 1)
    assert first != [(one.text, one.pair, one.label.uses[0].number) for one in other]  # type: ignore[union-attr]
    assert drawn.remarks()[0].startswith("For 20 of the queries, the data name no passage that does not")


@pytest.fixture
def folder(headed: Any, tmp_path: Path) -> Path:
    """Save a reranker as transformers does."""
    found = headed("bert", "regression")
    for saver in (found.model, found.tokenizer):
        saver.save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


#: A metric here, and what the evaluator calls it.
NAMES: list[tuple[Any, str]] = [("ndcg", "ndcg@10"), ("mrr", "mrr@10")]
ROWS = {"query": TEXTS[:6] * 2, "positive": TEXTS[10:22]}


def test_as_sentence_transformers_scores(folder: Path, tmp_path: Path):
    """Scores, nDCG and MRR of a folder of version 6, of a loaded one, and of what pruning writes."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    evaluation = pytest.importorskip("sentence_transformers.cross_encoder.evaluation")
    for name in ("Sigmoid", "Identity"):
        model = sentence_transformers.CrossEncoder(
            str(folder), device="cpu", max_length=9, activation_fn=getattr(torch.nn, name)()
        )
        saved = tmp_path / name
        model.save_pretrained(str(saved))
        documents = list(dict.fromkeys(ROWS["positive"]))
        samples = [
            {
                "query": query,
                "positive": [p for q, p in zip(*ROWS.values(), strict=True) if q == query],
                "negative": [p for p in documents if (query, p) not in zip(*ROWS.values(), strict=True)],
            }
            for query in ROWS["query"][:6]
        ]
        expected = evaluation.CrossEncoderRerankingEvaluator(samples, write_csv=False)(model)
        for given in (str(saved), model):
            for metric, key in NAMES:
                table = attnprobe.ablate(given, ROWS, objective="retrieval", metric=metric, progress=True)
                assert table["baseline"][0] == pytest.approx(expected[key], abs=1e-6)
                assert table.provenance["task"]["activation"] == name
        read = load_checkpoint(str(saved), LoadOptions(device="cpu"), (CLASSIFICATION,))
        assert read.scoring is not None
        texts = TEXTS[0], TEXTS[13] + " " + TEXTS[17]
        inputs = read.tokenizer(*texts, return_tensors="pt", truncation=True, max_length=read.longest)
        assert inputs["input_ids"].shape[1] == 9
        with torch.inference_mode():
            ours = read.scoring(read.model(**inputs).logits[0, 0])
        assert ours.item() == pytest.approx(model.predict([texts])[0], abs=1e-5)
    attnprobe.prune(
        str(saved), ROWS, objective="retrieval", step=0.5, share=0.5, save=tmp_path / "smaller", progress=True
    )
    smaller = sentence_transformers.CrossEncoder(str(tmp_path / "smaller"), device="cpu")
    assert type(smaller.activation_fn).__name__ == "Identity"
    record = json.loads((tmp_path / "smaller" / "attnprobe.json").read_text())
    weight = dict(smaller.model.named_parameters())["bert.encoder.layer.0.attention.output.dense.weight"]
    gone = {head for layer, head in record["removed"] if layer == 0}
    zero = {head for head in range(4) if not weight[:, 8 * head : 8 * head + 8].any()}
    assert zero == gone
    assert len(record["removed"]) == 6
    assert any("CrossEncoder('" in note for note in record["notes"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sentence_transformers": {"activation_fn": "torch.nn.Softplus"}}, "activation is Softplus"),
        ({"sbert_ce_default_activation_function": "torch.nn.ELU"}, "activation is ELU"),
        ({"modules": "LogitScore"}, "it is made by LogitScore"),
        ({"modules": None, "id2label": {"0": "a", "1": "b"}}, "can't be made: it predicts 2 labels"),
        ({"modules": None, "prompts": {"a": "b: "}}, "texts are changed"),
    ],
    ids=str,
)  # fmt: skip
def test_scores_that_are_not_made(folder: Path, change: dict[str, Any], said: str):
    config = json.loads((folder / "config.json").read_text())
    path = "sentence_transformers.base.modules.transformer.Transformer"
    if "modules" in change:
        listed = [{"idx": 0, "name": "0", "path": "", "type": path}]
        if further := change.pop("modules"):
            kind = f"sentence_transformers.cross_encoder.modules.logit_score.{further}"
            listed.append({"idx": 1, "name": "1", "path": "1_LogitScore", "type": kind})
        (folder / "modules.json").write_text(json.dumps(listed))
        prompts = {"prompts": change.pop("prompts", {}), "default_prompt_name": "a"}
        described = {"model_type": "CrossEncoder", **prompts}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(described))
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(AttnprobeError, match=said):
        attnprobe.ablate(str(folder), ROWS, objective="retrieval", progress=True)


def test_other_names_of_activations():
    """A name that torch does not own is never imported; predict takes the usual one too."""
    for section, expected in (
        ({"sentence_transformers": {"activation_fn": "os.abort"}}, "Sigmoid"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, "Identity"),
    ):
        options: dict[str, Any] = {"num_labels": 1, **section}
        assert PairScoring.build(BertConfig(**options), CLASSIFICATION, {}, {}, ()).activation == expected
