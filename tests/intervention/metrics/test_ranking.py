"""Scores of rankings against trec_eval, by way of pytrec_eval."""

import numpy as np
import pytest
import pytrec_eval

from attnprobe.intervention.metrics import ranking

CUT = {"ndcg": "ndcg_cut_10", "mrr": "recip_rank", "recall": "recall_10"}


@pytest.mark.parametrize("levels", [2, 7, 1000])
def test_as_trec_eval_has_it(levels: int):
    """Graded judgements; scores of few levels tie, and ids of unequal lengths decide."""
    draw = np.random.default_rng(levels)
    queries, passages = 20, 60
    names = sorted((f"{number:x}" for number in draw.choice(5000, passages, replace=False)), reverse=True)
    scores = (draw.integers(levels, size=(queries, passages)) / levels).astype(np.float32)
    grades = draw.integers(0, 4, size=(queries, passages)) * (draw.random((queries, passages)) < 0.2)
    grades[:, 0] = 1  # at least one
    itself = np.arange(queries) % 3 == 0  # the sixth passage
    grades[itself, 5] = 0
    row, column = np.nonzero(grades)
    passed_over = scores.copy()
    passed_over[itself, 5] = -1e9
    ranks = ranking.find_ranks(passed_over, row, column)

    judged = {f"q{q}": dict(zip(names, map(int, grades[q]), strict=True)) for q in range(queries)}
    run = {f"q{q}": dict(zip(names, map(float, scores[q]), strict=True)) for q in range(queries)}
    for query in np.flatnonzero(itself):
        del run[f"q{query}"][names[5]]
    whole = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10"}).evaluate(run)
    # trec_eval looks for the first relevant passage as far as the run goes.
    tops = {
        query: dict(sorted(run[query].items(), key=lambda item: (item[1], item[0]), reverse=True)[:10])
        for query in run
    }
    first = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(tops)
    for name, theirs in CUT.items():
        ours = getattr(ranking, name)(ranks, row, grades[row, column].astype(float), queries)
        expected = [(first if name == "mrr" else whole)[f"q{q}"][theirs] for q in range(queries)]
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)
        assert 0 < ours.mean() < 1
