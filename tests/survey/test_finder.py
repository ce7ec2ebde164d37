"""Counts of gold links: the same in one batch as in several, with documents that were cut into windows."""

import numpy as np

import attnprobe


def test_errors_of_many_documents_in_one_batch():
    """Documents beyond 128 share groups, also where all of them come at once."""
    text = "a b c d e f g h"
    links = [{"source": [0, 1], "target": [4, 5], "label": "x"}]
    links += [{"source": [8, 9], "target": [12, 13], "label": "x"}]
    rows = [{"text": f"{text} {number}", "links": links[: 1 + number % 2]} for number in range(150)]
    how = {"max_length": 6, "by": "head", "workers": 1}
    one, several = (attnprobe.links("demo", rows, batch_tokens=size, **how) for size in (10**6, 60))
    assert (one["n"] > 200).all()
    np.testing.assert_allclose(one["accuracy_se"], several["accuracy_se"], rtol=1e-9)
    assert (one["accuracy_se"] > 0).any()
