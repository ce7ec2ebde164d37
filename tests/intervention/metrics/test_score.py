"""Every score against sklearn, scipy and sacrebleu; its error by leaving examples out, its p by exchanges."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.ablation import ScoreDeltas
from attnprobe.intervention.metrics import score as scores
from attnprobe.intervention.metrics.score import CLUSTER, Score, mean_score
from attnprobe.intervention.trials import AblationRun

metrics = pytest.importorskip("sklearn.metrics")
sacrebleu = pytest.importorskip("sacrebleu")

LOSS = mean_score("loss", "nats", higher_is_better=False)
ACCURACY = mean_score("accuracy", "share")
WORDS = np.array(list("abcdefghijklmno"))

Ints = NDArray[np.int64]
Draw = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A score, examples to predict, and the score worked out elsewhere."""

    score: Score
    draw: Callable[[Draw, int], dict[str, Any]]
    expected: Callable[[dict[str, Any]], float]


def compare(score: Score, ours: dict[str, Any], theirs: dict[str, Any]) -> SimpleNamespace:
    """Compare a score with that of the untouched model, as ablations do."""
    clusters = {CLUSTER: ours[CLUSTER]} if CLUSTER in ours else {}
    compared = ScoreDeltas.of(score, AblationRun({**theirs, **clusters}, [[ours]]))
    return SimpleNamespace(
        delta=compared.deltas.value.item(), error=compared.deltas.error.item(), p=compared.p.item()
    )


def draw_words(draw: Draw, number: int) -> dict[str, Any]:
    there = np.random.default_rng(1).integers(1, 9, number)
    return {"words": np.stack([draw.binomial(there, 0.7), there], 1).astype(np.float32)}


def draw_entities(draw: Draw, number: int) -> dict[str, Any]:
    there, predicted = np.random.default_rng(1).integers(0, 4, number), draw.integers(0, 4, number)
    return {"entities": np.stack([draw.binomial(np.minimum(there, predicted), 0.7), predicted, there], 1)}


def draw_labels(draw: Draw, number: int) -> dict[str, Any]:
    """Draw five labels, the last of which nothing has."""
    gold = (np.random.default_rng(1).random((number, 5)) < [0.5, 0.3, 0.6, 0.2, 0]).astype(float)
    flipped = draw.random(gold.shape) < [0.25, 0.25, 0.25, 0.25, 0]
    return {"label": gold, "prediction": np.abs(gold - flipped).astype(np.float32)}


def draw_classes(classes: int) -> Callable[[Draw, int], dict[str, Any]]:
    def draw_some(draw: Draw, number: int) -> dict[str, Any]:
        gold = np.random.default_rng(1).integers(classes, size=number)
        predicted = np.where(draw.random(number) < 0.6, gold, draw.integers(classes, size=number))
        return {"label": gold.astype(float), "prediction": predicted.astype(np.float32)}

    return draw_some


def draw_numbers(draw: Draw, number: int) -> dict[str, Any]:
    gold = np.random.default_rng(1).integers(0, 5, number).astype(float)  # with ties
    return {"label": gold + 1000, "prediction": np.round(gold + draw.standard_normal(number), 1)}


def draw_texts(draw: Draw, number: int) -> dict[str, Any]:
    fixed = np.random.default_rng(1)
    gold = [fixed.choice(WORDS, fixed.integers(4, 12)).tolist() for _ in range(number)]
    texts = [[word if draw.random() < 0.8 else str(draw.choice(WORDS)) for word in text] for text in gold]
    texts = [text[: -1 if draw.random() < 0.4 else None] for text in texts]  # which costs brevity
    joined = [[" ".join(text) for text in side] for side in (texts, gold)]
    counts = [scores.count_ngrams(*pair) for pair in zip(*joined, strict=True)]
    return {"ngrams": np.array(counts), "pair": np.array(joined).T}


def texts_of(predictions: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    texts, references = predictions["pair"].T.tolist()
    return texts, [references]


def draw_losses(draw: Draw, number: int) -> dict[str, Any]:
    return {"loss": (np.random.default_rng(1).gamma(2.0, size=number) + draw.normal(0, 0.5, number))}


def draw_answers(draw: Draw, number: int) -> dict[str, Any]:
    return {"accuracy": draw.random(number) < np.random.default_rng(1).random(number)}


def of_labels(function: Callable[..., Any], **options: Any) -> Callable[[dict[str, Any]], float]:
    """Make a reference of a function of right labels and predictions."""
    return lambda drawn: function(drawn["label"], drawn["prediction"], **options)


def count_f1(drawn: dict[str, Any]) -> float:
    right, predicted, there = drawn["entities"].sum(0)
    return 2 * right / (predicted + there)


F1 = {"zero_division": 0}
CASES = {
    "words": Case(scores.word_accuracy(), draw_words, lambda drawn: np.divide(*drawn["words"].sum(0, float))),
    "entities": Case(scores.entity_f1(), draw_entities, count_f1),
    "f1_micro": Case(scores.f1_micro(), draw_labels, of_labels(metrics.f1_score, average="micro", **F1)),
    "f1_macro": Case(scores.f1_macro(), draw_labels, of_labels(metrics.f1_score, average="macro", **F1)),
    "f1 of two": Case(scores.class_f1(2), draw_classes(2), of_labels(metrics.f1_score, **F1)),
    # Two of six classes never occur.
    "f1 of four": Case(
        scores.class_f1(6), draw_classes(4), of_labels(metrics.f1_score, average="macro", **F1)
    ),
    "mcc of two": Case(scores.matthews(2), draw_classes(2), of_labels(metrics.matthews_corrcoef)),
    "mcc of four": Case(scores.matthews(6), draw_classes(4), of_labels(metrics.matthews_corrcoef)),
    "pearson": Case(scores.pearson(), draw_numbers, of_labels(lambda *pair: stats.pearsonr(*pair)[0])),
    "spearman": Case(scores.spearman(), draw_numbers, of_labels(lambda *pair: stats.spearmanr(*pair)[0])),
    "bleu": Case(
        scores.bleu(), draw_texts, lambda drawn: sacrebleu.corpus_bleu(*texts_of(drawn), force=True).score
    ),
    "loss": Case(LOSS, draw_losses, lambda drawn: drawn["loss"].mean()),
    "accuracy": Case(ACCURACY, draw_answers, lambda drawn: drawn["accuracy"].mean()),
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
EXCHANGED = [name for name in CASES if name not in {"loss", "spearman"}]
#: Documents of one to three examples.
DOCUMENTS = np.array([5000, -1, 7000, 5000, -1, 6000, 7000, 8000, 5000, 8000, 6000, -1, -1, -1])


def keep(predictions: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: values[rows] for name, values in predictions.items()}


def leave_out(case: Case, predictions: dict[str, Any]) -> NDArray[np.float64]:
    """Compute the pseudovalue of each example from the score without it."""
    places = np.arange(len(next(iter(predictions.values()))))
    without = np.array([case.expected(keep(predictions, places != place)) for place in places])
    return len(places) * case.expected(predictions) - (len(places) - 1) * without


def error_over_documents(values: NDArray[np.float64], clusters: Ints) -> float:
    """Compute the standard error of a mean by leaving out a document at a time."""
    names = np.where(clusters < 0, -1 - np.arange(len(clusters)), clusters)
    means = np.array([values[names != name].mean() for name in np.unique(names)])
    return np.sqrt((len(means) - 1) / len(means) * np.square(means - values.mean()).sum())


@EVERY
def test_score(case: Case):
    for seed, number in ((0, 7), (1, 60)):
        predictions = case.draw(np.random.default_rng(seed), number)
        assert case.score.score(predictions) == pytest.approx(case.expected(predictions), abs=1e-9)


@EVERY
@pytest.mark.parametrize("clusters", [np.full(14, -1), DOCUMENTS], ids=["examples", "documents"])
def test_errors(case: Case, clusters: Ints):
    if case.score.name == "spearman":
        pytest.skip("its ranks are those of all examples")
    ours, theirs = (case.draw(np.random.default_rng(seed), len(clusters)) for seed in (2, 3))
    added = leave_out(case, ours)
    named = {**ours, CLUSTER: clusters}
    np.testing.assert_allclose(case.score.pseudovalues(named), added, atol=1e-9)
    assert case.score.standard_error(named) == pytest.approx(error_over_documents(added, clusters))
    compared = compare(case.score, named, theirs)
    assert compared.delta == pytest.approx(case.expected(ours) - case.expected(theirs))
    assert compared.error == pytest.approx(error_over_documents(added - leave_out(case, theirs), clusters))


@pytest.mark.parametrize("noise", [0.2, 1.0])
def test_ranks_that_stay(noise: float):
    """Examples keep their ranks where one is left out or exchanged, which changes little."""
    draw, score = np.random.default_rng(0), scores.spearman()
    case, gold = CASES["spearman"], draw.normal(size=250)
    noises = noise, 1.15 * noise
    ours, theirs = ({"label": gold, "prediction": gold + draw.normal(0, width, 250)} for width in noises)
    added, nobody = leave_out(case, ours), np.full(250, -1)
    assert score.standard_error(ours) == pytest.approx(error_over_documents(added, nobody), rel=0.15)
    compared = compare(score, ours, theirs)
    error = error_over_documents(added - leave_out(case, theirs), nobody)
    assert compared.error == pytest.approx(error, rel=0.06)

    def difference(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
        return stats.spearmanr(gold, first)[0] - stats.spearmanr(gold, second)[0]

    sides = ours["prediction"], theirs["prediction"]
    expected = stats.permutation_test(
        sides, difference, permutation_type="samples", vectorized=False, n_resamples=999, random_state=draw
    ).pvalue
    assert 0.02 < expected < 0.9
    assert compared.p == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("name", EXCHANGED)
@pytest.mark.parametrize("clusters", [np.full(9, -1), DOCUMENTS], ids=["examples", "documents"])
def test_p_of_exchanges(name: str, clusters: Ints):
    """Answers to documents are exchanged in all ways; of right and wrong ones that is exact."""
    case, number = CASES[name], len(clusters)
    ours, theirs = (case.draw(np.random.default_rng(seed), number) for seed in (2, 12))
    both = {key: np.concatenate([ours[key], theirs[key]]) for key in ours}
    names = np.unique(np.where(clusters < 0, -1 - np.arange(number), clusters), return_inverse=True)[1]

    def difference(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
        """Compare what two sides give to documents: number d for ours, -1 - d for theirs."""
        rows = []
        for side in (first, second):
            places = [np.flatnonzero(names == (d if d >= 0 else -1 - d)) + (d < 0) * number for d in side]
            rows.append(np.concatenate(places))
        return case.score.score(keep(both, rows[0])) - case.score.score(keep(both, rows[1]))

    places = np.arange(names.max() + 1.0)
    expected = stats.permutation_test(
        (places, -1 - places), difference, permutation_type="samples", vectorized=False, n_resamples=9999
    ).pvalue
    p = compare(case.score, {**ours, CLUSTER: clusters}, theirs).p
    assert 0 < expected <= 1
    assert p == pytest.approx(expected, abs=1e-9 if name == "accuracy" else 0.015 + 0.1 * expected)


@pytest.mark.parametrize(("better", "worse"), [(0, 1), (3, 3), (12, 4), (900, 1000)])
def test_mcnemar(better: int, worse: int):
    theirs = np.array([0] * better + [1] * worse + [0, 1] * 9)
    ours = np.array([1] * better + [0] * worse + [0, 1] * 9)
    compared = compare(ACCURACY, {"accuracy": ours}, {"accuracy": theirs})
    assert compared.p == pytest.approx(stats.binomtest(worse, better + worse).pvalue)


@pytest.mark.parametrize("clusters", [np.full(14, -1), DOCUMENTS], ids=["examples", "documents"])
def test_student_s_t(clusters: Ints):
    ours, theirs = (draw_losses(np.random.default_rng(seed), 14) for seed in (2, 3))
    compared = compare(LOSS, {**ours, CLUSTER: clusters}, theirs)
    delta = ours["loss"] - theirs["loss"]
    error = error_over_documents(delta, clusters)
    _, sizes = np.unique(np.where(clusters < 0, -1 - np.arange(14), clusters), return_counts=True)
    documents = 14**2 / np.square(sizes).sum()  # of unequal ones, as many as Kish counts
    assert compared.p == pytest.approx(2 * stats.t.sf(abs(delta.mean()) / error, documents - 1))
    if (clusters < 0).all():
        assert compared.p == pytest.approx(stats.ttest_1samp(delta, 0).pvalue)


def test_differences_that_are_sure():
    values = np.random.default_rng(0).random(10)
    assert compare(LOSS, {"loss": values + 0.1}, {"loss": values}).p < 1e-12  # but for rounding, all alike
    assert compare(LOSS, {"loss": values}, {"loss": values}).p == 1
    assert np.isnan(compare(LOSS, {"loss": values[:1]}, {"loss": values[:1] + 1}).p)
    same = mean_score("similarity", "cosine", tested=False)
    assert np.isnan(compare(same, {"similarity": values}, {"similarity": values + 1}).p)


def test_float32_is_averaged_in_float64():
    values = np.full(3_000_000, 0.1, np.float32)
    assert LOSS.score({"loss": values}) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_what_is_flat_has_no_correlation(name: str):
    score, varied, flat = CASES[name].score, np.arange(4.0), np.full(4, 0.1)
    for predictions in ({"label": varied, "prediction": flat}, {"label": flat, "prediction": varied}):
        assert np.isnan(score.score(predictions))
        compared = compare(
            score, {"label": varied, "prediction": flat}, {"label": varied, "prediction": varied}
        )
        assert np.isnan([compared.delta, compared.p]).all()


@pytest.mark.parametrize(
    "text", ["a b c d e f", "a b c x y z", "a x c y e z", "x y z u v w", "a b c", "a b c d"]
)
def test_bleu_of_a_few_words(text: str):
    """Orders without a right n-gram, without any, and none that is right."""
    expected = sacrebleu.corpus_bleu([text], [["a b c d e f"]], force=True).score
    counts = np.array(scores.count_ngrams(text, "a b c d e f"), float)
    assert scores.corpus_bleu(counts) == pytest.approx(expected)


def test_bleu_needs_sacrebleu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scores.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(AttnprobeError, match="--metric bleu needs sacrebleu: pip install sacrebleu"):
        scores.bleu()
