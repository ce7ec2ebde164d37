"""Cross-fitting: each fold is scored with what the others choose; p is uniform where there is no effect."""

import numpy as np
import pytest

from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import sign_flip
from attnprobe.sums.links import DRAWS, CrossFit, Difference, Links, assign_folds, draw_signs


def drawn(random, documents, *shares, links=1.0):
    """Draw documents with links in blocks, and right answers of candidates to them.

    Returns:
        Links (block,), and for each set of candidates right answers (candidate, block).
    """
    block, n = random.integers(0, BLOCKS, documents), 1 + random.poisson(links, documents)
    links_of_block = np.bincount(block, n, BLOCKS).astype(np.int64)
    answers = []
    for share in shares:
        hits = np.zeros((len(share), BLOCKS), np.int64)
        np.add.at(hits.T, block, random.binomial(n[:, None], share, (documents, len(share))))
        answers.append(hits)
    return links_of_block, *answers


@pytest.mark.parametrize("folds", [2, 5, 10])
@pytest.mark.parametrize("documents", [8, 200])
def test_by_hand(folds, documents):
    random = np.random.default_rng(folds)
    for _ in range(20):
        links, hits = drawn(random, documents, random.random(6))
        fitted, fold = CrossFit(Links(links, hits), folds), assign_folds(folds)
        right, chosen = 0, []
        for left_out in range(folds):
            if not links[fold == left_out].sum():
                continue
            others = [hit[fold != left_out].sum() for hit in hits]
            best = others.index(max(others))  # the first of equals
            right += hits[best, fold == left_out].sum()
            chosen.append(best)
        assert fitted.share == right / links.sum()
        assert fitted.chosen[fitted.filled].tolist() == chosen
        times = {head: chosen.count(head) for head in chosen}
        assert times[fitted.named] == max(times.values())
        assert fitted.agreement == times[fitted.named] / len(chosen)
        most = [head for head, number in times.items() if number == times[fitted.named]]
        assert hits[fitted.named].sum() == max(hits[head].sum() for head in most)
        others = np.arange(12, 12 + hits.size).reshape(hits.shape)
        expected = sum(others[head, fold == at].sum() for at, head in enumerate(fitted.chosen))
        assert fitted.answers_of(others).sum() == expected


@pytest.mark.parametrize("tied", [False, True])
def test_a_draw_by_hand(tied):
    random = np.random.default_rng(1)
    links, hits = drawn(random, 150, [0.5, 0.47, 0.1, 0.45])
    fitted, fold = CrossFit(Links(links, hits), 5), assign_folds(5)
    signs = draw_signs(random, 30)
    total = links.sum()
    share = hits.sum(1) / total
    residual = hits - share[:, None] * links
    best = share.argmax()
    for draw, share_drawn in zip(signs, fitted.draw(signs, tied=tied), strict=True):
        made = np.zeros_like(residual)
        for candidate in range(len(hits)):
            error = np.sqrt(((residual[candidate] - residual[best]) ** 2).sum()) / total
            behind = share[best] - share[candidate]
            if tied and behind <= 3 * error:
                behind = 0
            made[candidate] = draw * residual[candidate] - links * behind
        expected = 0.0
        for at in range(5):
            expected += made[made[:, fold != at].sum(1).argmax(), fold == at].sum()
        assert share_drawn == pytest.approx(expected / total, abs=1e-12)


@pytest.mark.parametrize("blocks", [3, BLOCKS])
def test_where_all_choose_the_same_the_error_is_that_of_a_ratio(blocks):
    """In few blocks, the correction for their number is more than the noise of the draws."""
    random = np.random.default_rng(2)
    links, hits, rules = drawn(random, 300, [0.6, 0.1, 0.1], [0.3, 0.02], links=20)
    for counts in (links, hits, rules):
        counts[..., blocks:] = 0
    heads, rule = CrossFit(Links(links, hits), 5), CrossFit(Links(links, rules), 5)
    total, filled = links.sum(), (links > 0).sum()
    for difference, right in (
        (Difference(heads), hits[0]),
        (Difference(heads, rule), hits[0] - rules[0]),
    ):
        left = right - right.sum() / total * links
        expected = np.sqrt(filled / (filled - 1) * (left**2).sum()) / total
        assert difference.value == pytest.approx(right.sum() / total)
        # The standard deviation of a thousand draws is off by 2 %.
        assert difference.estimate.error == pytest.approx(expected, rel=4 / np.sqrt(2 * DRAWS))


def compare(links, heads, rules):
    """Compare heads, which folds choose, with the best rule over all links."""
    rule = CrossFit.fixed(links, rules[rules.sum(1).argmax()])
    return Difference(CrossFit(Links(links, heads), 5), rule)


def simulate(heads, rules, runs):
    """Simulate 300 documents, where all heads and rules are as good: p, gains, some of their errors."""
    random = np.random.default_rng(1)
    p, value, error = [], [], []
    for run in range(runs):
        difference = compare(*drawn(random, 300, np.full(heads, 0.4), np.full(rules, 0.4)))
        p.append(difference.p(1))
        value.append(difference.value)
        if not run % 5:
            error.append(difference.estimate.error)
    return (np.array(values) for values in (p, value, error))


def test_p_is_uniform_where_heads_are_as_good_as_the_rule():
    p, value, error = simulate(6, 1, 400)
    assert 0.02 <= (p < 0.05).mean() <= 0.08  # .05 within three standard errors
    assert 0.4 <= (p < 0.5).mean() <= 0.6
    assert abs(value.mean()) < 3 * value.std() / 20
    assert 0.85 < error.mean() / value.std() < 1.2


def test_p_of_two_who_are_fixed_is_the_sign_flip_test():
    links, ours, theirs = np.zeros((3, BLOCKS), int)
    links[:6], ours[:6], theirs[:6] = 4, [3, 2, 4, 1, 2, 3], [2, 2, 1, 2, 1, 2]
    difference = Difference(CrossFit.fixed(links, ours), CrossFit.fixed(links, theirs))
    assert difference.p(1) == pytest.approx(sign_flip((ours - theirs)[:6]), abs=0.02)
