"""BLEU against sacrebleu's own, over whole corpora."""

from typing import Any

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics import bleu
from attnprobe.intervention.metrics.bleu import Bleu
from attnprobe.sums.inference import PermutationTest

sacrebleu = pytest.importorskip("sacrebleu")

REFERENCES = [
    "the river bank was slow , and the dog ran to the water .",
    "a bird ran over the red house .",
    "is it late ? it was always late .",
    "the parcel came early by day and by night .",
    "he walks slowly over the road between river and bank .",
    "she said that the train was under the stone house .",
    "stone .",
    "blue water and red light at the house of the dog .",
]  # fmt: skip


def spoilt(share: float, seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(word for word in text.split() if draw.random() > share) for text in REFERENCES]


def outcome(texts: list[str]) -> dict[str, Any]:
    return {"text": np.array(texts, dtype=object), "reference": np.array(REFERENCES, dtype=object)}


def corpus_bleu(texts: list[str], references: list[str] = REFERENCES) -> float:
    return sacrebleu.corpus_bleu(texts, [references], force=True).score


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6])
def test_score(share: float):
    texts = spoilt(share, 0)
    assert Bleu(PermutationTest(0)).score(outcome(texts)) == pytest.approx(corpus_bleu(texts), abs=1e-9)


def test_standard_error_is_the_bootstrap(monkeypatch: pytest.MonkeyPatch):
    texts = spoilt(0.15, 1)
    found = Bleu(PermutationTest(0)).standard_error(outcome(texts))
    draw, scores = np.random.default_rng(5), []
    for _ in range(400):
        chosen = draw.integers(8, size=8)
        scores.append(corpus_bleu([texts[i] for i in chosen], [REFERENCES[i] for i in chosen]))
    assert found == pytest.approx(np.std(scores, ddof=1), rel=0.12)


@pytest.mark.slow
def test_compare():
    ours, theirs = spoilt(0.3, 1), spoilt(0.12, 2)
    found = Bleu(PermutationTest(0)).compare(outcome(ours), outcome(theirs))
    assert found.delta == pytest.approx(corpus_bleu(ours) - corpus_bleu(theirs))
    draw, apart, drawn = np.random.default_rng(5), [], []
    for _ in range(400):
        swap = draw.random(8) < 0.5
        one = [b if s else a for a, b, s in zip(ours, theirs, swap, strict=True)]
        other = [a if s else b for a, b, s in zip(ours, theirs, swap, strict=True)]
        apart.append(corpus_bleu(one) - corpus_bleu(other))
        chosen = draw.integers(8, size=8)
        references = [REFERENCES[i] for i in chosen]
        drawn.append(
            corpus_bleu([ours[i] for i in chosen], references)
            - corpus_bleu([theirs[i] for i in chosen], references)
        )
    expected = np.mean(np.abs(apart) >= abs(found.delta) - 1e-9)
    assert found.p == pytest.approx(expected, abs=0.07)
    assert found.error == pytest.approx(np.std(drawn, ddof=1), rel=0.15)


def test_pseudovalues_are_of_the_score_without_one():
    texts, number = spoilt(0.3, 4), len(REFERENCES)
    found = Bleu(PermutationTest(0)).pseudovalues(outcome(texts))
    for place in range(number):
        rest = [i for i in range(number) if i != place]
        without = corpus_bleu([texts[i] for i in rest], [REFERENCES[i] for i in rest])
        assert found[place] == pytest.approx(number * corpus_bleu(texts) - (number - 1) * without)


def test_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bleu.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(AttnprobeError, match="--metric bleu needs sacrebleu: pip install sacrebleu"):
        Bleu(PermutationTest(0))
