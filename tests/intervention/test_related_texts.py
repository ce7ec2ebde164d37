"""Tasks about several texts against embeddings of single texts, plain formulas and finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import pytrec_eval
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from attnprobe.corpus.document import Document, Pair, Query, Triplet
from attnprobe.errors import AttnprobeError
from attnprobe.intervention import trials
from attnprobe.intervention.ablation import tabulate_ablation
from attnprobe.intervention.gradient import gradient_importance
from attnprobe.intervention.task import build_metric
from attnprobe.intervention.trials import run_trials
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.tasks import Gold

SHAPE = LAYERS, HEADS = 3, 4
WORDS = (  # noqa: SIM905 - a list would take a page
    "river bank slow bird red house dog cat stone late early train night day parcel green water"
).split()
DRAW = np.random.default_rng(3)
TEXTS = [" ".join(DRAW.choice(WORDS, 2 + number % 4, replace=False)) for number in range(24)]
PAIRS: list[Any] = [
    Document(TEXTS[number], label=Pair(TEXTS[number * 5 % 11 + 12], number % 6)) for number in range(12)
]
TRIPLETS: list[Any] = [
    Document(TEXTS[number], label=Triplet(TEXTS[number + 8], TEXTS[number % 3 + 16])) for number in range(8)
]
#: Two passages answer the second query, one of them better; the third query is a passage too.
QUERIES: list[tuple[str, str, dict[str, int]]] = [
    ("q0", TEXTS[0], {"d1": 1}),
    ("q1", TEXTS[1], {"d2": 1, "d5": 2, "d3": 0}),
    ("d7", TEXTS[2], {"d6": 1}),
    ("q3", TEXTS[3], {"d9": 3, "nowhere": 1}),
    ("q4", TEXTS[4], {"nowhere": 1}),
]
PASSAGES = {f"d{number}": text for number, text in enumerate(TEXTS[8:])}
SEARCH = [
    *(
        Document(text, label=Query(name, tuple(judged.items())), role="query")
        for name, text, judged in QUERIES
    ),
    *(Document(text, label=Query(name), role="document") for name, text in PASSAGES.items()),
]
DATA = {"similarity": PAIRS, "triplet": TRIPLETS, "retrieval": SEARCH}
#: The metrics that are compared, the loss behind them.
NEEDS = {
    "similarity": ("label", "prediction", "mse"),
    "triplet": ("accuracy", "loss"),
    "retrieval": ("ndcg", "mrr", "recall", "loss"),
}
Embed = Callable[[str], torch.Tensor]
#: Heads whose derivatives are compared.
PROBED = [(0, 1), (1, 3), (2, 2)]


def cosine(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (first * second).sum(-1) / (first.norm(dim=-1) * second.norm(dim=-1))


def search(embed: Embed) -> tuple[dict[str, dict[str, float]], list[torch.Tensor]]:
    """Compute the cosines of answered queries with all passages but themselves, and the losses."""
    run, losses = {}, []
    for name, text, judged in QUERIES[:4]:
        cosines = {key: cosine(embed(text), embed(PASSAGES[key])) for key in PASSAGES if key != name}
        run[name] = {key: score.item() for key, score in cosines.items()}
        right = [key for key, grade in judged.items() if grade and key in cosines]
        others = [score for key, score in cosines.items() if key not in right]
        logits = [20 * torch.stack([cosines[key], *others]) for key in right]
        losses.append(torch.stack([cross_entropy(one, torch.tensor(0)) for one in logits]).mean())
    return run, losses


def expected(kind: str, embed: Embed) -> tuple[dict[str, Any], torch.Tensor]:
    """Compute what is kept of every example, and the mean loss."""
    if kind == "similarity":
        cosines = torch.stack([cosine(embed(one.text), embed(one.label.other)) for one in PAIRS])
        scores = np.array([one.label.score for one in PAIRS])
        losses = (cosines - torch.tensor(scores / 5)) ** 2
        return {"label": scores, "prediction": cosines, "mse": losses}, losses.mean()
    if kind == "triplet":
        sides = [
            [
                cosine(embed(document.text), embed(other))
                for other in (document.label.positive, document.label.negative)
            ]
            for document in TRIPLETS
        ]
        ahead = torch.stack([near - far for near, far in sides])
        losses = torch.relu(0.5 - ahead)
        return {"accuracy": ahead > 0, "loss": losses}, losses.mean()
    run, losses = search(embed)
    judged = {
        name: {key: grade for key, grade in grades.items() if key in PASSAGES} for name, _, grades in QUERIES
    }
    evaluated = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10"}).evaluate(run)
    tops = {
        query: dict(sorted(scores.items(), key=lambda item: -item[1])[:10]) for query, scores in run.items()
    }
    first = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(tops)
    return {
        "ndcg": [evaluated[query]["ndcg_cut_10"] for query in run],
        "recall": [evaluated[query]["recall_10"] for query in run],
        "mrr": [first[query]["recip_rank"] for query in run],
        "loss": torch.stack(losses),
    }, torch.stack(losses).mean()


@pytest.fixture
def eager(headed: Any, scale_heads: Any) -> Callable[..., Embed]:
    """Embed texts one by one, with masks (layer, head) in the weights."""

    def build(masks: NDArray[Any], checkpoint: Checkpoint | None = None) -> Embed:
        checkpoint = checkpoint or headed("bert", "representation", double=True)
        model, tokenizer = scale_heads(checkpoint.model, np.asarray(masks, float)), checkpoint.tokenizer
        known: dict[str, torch.Tensor] = {}

        def embed(text: str) -> torch.Tensor:
            if text not in known:
                with torch.no_grad():
                    known[text] = model(**tokenizer(text, return_tensors="pt"))[0][0].mean(0)
            return known[text]

        return embed

    return build


def without(*heads: tuple[int, int]) -> NDArray[np.bool_]:
    mask = np.ones(SHAPE, bool)
    for head in heads:
        mask[head] = False
    return mask


@pytest.mark.parametrize("kind", DATA)
def test_heads_off_by_hand(headed: Any, task_data: Any, eager: Any, kind: str):
    masks = [without((2, 3)), without((0, 1), (1, 0), (1, 2))]
    with task_data(headed("bert", "representation", double=True), DATA[kind], kind, batch_tokens=20) as data:
        assert data.objective.name == kind
        run = run_trials(data, masks, NEEDS[kind])
    for mask, predictions in zip([without(), *masks], [run.untouched, *run.masked], strict=True):
        values, _ = expected(kind, eager(mask))
        for name, value in values.items():
            np.testing.assert_allclose(predictions[name], np.asarray(value, float), atol=1e-6, err_msg=name)


def differentiate(kind: str, eager: Any, at: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Differentiate the mean loss by the masks of ``PROBED``, with a step to both sides.

    Returns:
        The derivatives, and the means over texts of the size of T dL/dh_t . dh_t/dmask.
    """
    embed = eager(at)
    leaves: dict[str, torch.Tensor] = {}

    def leaf(text: str) -> torch.Tensor:
        return leaves.setdefault(text, embed(text).clone().requires_grad_())

    _, loss = expected(kind, leaf)
    slopes = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    step = 1e-4
    whole, sizes = [], []
    for head in PROBED:
        sides = []
        for sign in (1, -1):
            masks = np.asarray(at, float).copy()
            masks[head] += sign * step
            sides.append(eager(masks))
        near, far = sides
        whole.append((expected(kind, near)[1] - expected(kind, far)[1]).item() / (2 * step))
        moved = {text: (near(text) - far(text)) / (2 * step) for text in leaves}
        sizes.append(sum(abs(float(slopes[text] @ moved[text])) for text in leaves))
    return np.array(whole), np.array(sizes)


@pytest.mark.parametrize(("kind", "closed"), [("similarity", []), ("triplet", []), ("retrieval", []),
                                              ("retrieval", [(0, 1), (2, 2)])])  # fmt: skip
def test_derivatives(headed: Any, task_data: Any, eager: Any, kind: str, closed: list[Any]):
    """The derivatives of the texts add up to that of the mean loss by a mask that all of them share."""
    at = without(*closed)
    whole, sizes = differentiate(kind, eager, at)
    with task_data(headed("bert", "representation", double=True), DATA[kind], kind, batch_tokens=20) as data:
        sums = gradient_importance(data, at if closed else None)
    probed = tuple(np.transpose(PROBED))
    assert np.abs(whole).max() > 1e-4
    np.testing.assert_allclose(sums.size.average[probed], sizes, atol=1e-7)
    np.testing.assert_allclose(sums.signed.average[probed], whole, atol=1e-7)
    assert sums.size.count.max() == data.corpus.sequences


def test_a_head_that_carries_the_signal(headed: Any, task_data: Any, scale_heads: Any):
    """Passages answer as a model finds them whose head 2 of layer 1 speaks louder than the others."""
    masks = np.full(SHAPE, 0.3)
    masks[1, 2] = 6
    checkpoint = headed("bert", "representation", double=True)
    checkpoint = Checkpoint("loud", scale_heads(checkpoint.model, masks), checkpoint.tokenizer)
    queries, passages = TEXTS[:12], TEXTS[12:]

    def embed(text: str) -> torch.Tensor:
        with torch.no_grad():
            return checkpoint.model(**checkpoint.tokenizer(text, return_tensors="pt"))[0][0].mean(0)

    nearest = [
        max(range(12), key=lambda place, text=text: cosine(embed(text), embed(passages[place])).item())
        for text in queries
    ]
    searched = [
        *(Document(text, label=Query(f"q{place}", ((f"d{nearest[place]}", 1),)))
          for place, text in enumerate(queries)),
        *(Document(text, label=Query(f"d{place}")) for place, text in enumerate(passages)),
    ]  # fmt: skip
    with task_data(checkpoint, searched) as data:
        assert data.objective.name == "retrieval"  # chosen by the data
        table = tabulate_ablation(data, build_metric("ndcg", data, 0))
        importance = gradient_importance(data).size.average
    assert table["baseline"].min() == table["baseline"].max() == 1
    scores = np.reshape(table["score"], SHAPE)
    assert np.unravel_index(scores.argmin(), SHAPE) == np.unravel_index(importance.argmax(), SHAPE) == (1, 2)
    assert scores[1, 2] < 0.9
    assert set(table["n"]) == {12}


def test_texts_that_fit_no_memory(headed: Any, task_data: Any, monkeypatch: pytest.MonkeyPatch):
    with task_data(headed("bert", "representation"), SEARCH) as data:
        monkeypatch.setattr(trials, "_TOO_MANY", 4 * 32 * data.corpus.sequences)
        with pytest.raises(AttnprobeError, match=r"embeddings of 21 texts take .* with --limit or --sample"):
            run_trials(data, [], ("ndcg",))


def test_errors_are_over_documents(headed: Any, task_data: Any):
    """Pairs of one document are one cluster."""
    grouped = [
        Document(text.text, label=text.label, part_of=str(place // 3)) for place, text in enumerate(PAIRS)
    ]
    with task_data(headed("bert", "representation"), grouped, "similarity") as data:
        predictions = run_trials(data, [], NEEDS["similarity"]).untouched
        error = build_metric("mse", data, 0).standard_error(predictions)
        assert data.documents.tolist() == np.repeat(np.arange(4), 3).tolist()
    means = predictions["mse"].reshape(4, 3).mean(1)
    assert error == pytest.approx(means.std(ddof=1) / 2)


@pytest.mark.parametrize("method", ["ig", "lrp"])
def test_methods_that_explain_one_text(headed: Any, task_data: Any, method: str):
    with (
        task_data(headed("bert", "representation"), PAIRS, "similarity") as data,
        pytest.raises(AttnprobeError, match=rf"{method} is for tasks about one text, .* take gradient"),
    ):
        data.model.check_methods([method])


def test_a_cross_encoder_embeds_nothing(headed: Any, task_session: Any):
    checkpoint = headed("bert", "regression")
    with pytest.raises(AttnprobeError, match=r"is a cross-encoder, .* --objective regression"):
        task_session(checkpoint).choose(Gold.RELEVANCE)


def test_cosines_of_identical_texts_tie(headed: Any, task_data: Any):
    """Embeddings that differ in their last bits have one rank: by Spearman, in a triplet, and in a search."""
    same = [Document(TEXTS[n], label=Pair(TEXTS[n], n)) for n in range(6)]
    same += [Document(TEXTS[n], label=Pair(TEXTS[n + 1], n)) for n in range(6)]
    alike = [Document(TEXTS[0], label=Triplet(TEXTS[1], TEXTS[1] + " "))]
    search = [
        Document(TEXTS[0], label=Query("q", (("d1", 1),)), role="query"),
        *(Document(TEXTS[2], label=Query(f"d{n}"), role="document") for n in range(4)),
    ]
    draw = np.random.default_rng(0)
    for searched, name in ((same, "spearman"), (alike, "accuracy"), (search, "mrr")):
        with task_data(headed("bert", "representation", double=True), searched) as data:
            objective, metric = data.objective, build_metric(name, data, 0)
            states, scores = collect_states(data), []
            for _ in range(5):
                noisy = {"state": states * (1 + 1e-9 * draw.normal(size=states.shape))}
                predictions = objective.complete(noisy, data.corpus.batches, metric.needs)
                scores.append(metric.score(predictions))
        assert scores == [scores[0]] * 5


def collect_states(data: Any) -> NDArray[np.float64]:
    *_, answers = trials.collect_answers(data, [], ["state"], "embedding")
    return answers["state"]
