"""Counts of gold links: the same in one batch as in several, with documents that were cut into windows."""

import numpy as np

import attnprobe
from attnprobe.corpus.sources.links import read_linked_rows
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.links import BY_LABEL, LINKED
from attnprobe.sums.tally import CHOOSING, SCORING
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora


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


def test_documents_that_were_cut_count_in_their_half():
    """Every document has two windows or more, so the groups of a half are all that there is in it."""
    ends = [[place, place + 1] for place in range(0, 16, 2)]
    links = [{"source": ends[at], "target": ends[at + 1], "label": "x"} for at in range(7)]
    rows = [{"text": f"a b c d e f g h {number}", "links": links} for number in range(12)]
    asked = CorpusRequest(read_linked_rows(rows), [LINKED], CorpusOptions(max_length=6, batch_tokens=30))
    request = TableRequest([asked], "rows", {}, BY_LABEL)
    (found,) = survey_corpora(load_checkpoint("demo"), [request], progress=SilentProgress())
    tally = found.measurement.sums["links"]
    assert len(tally.groups) == len(rows)
    assert not tally.clusters.any()
    for half in (CHOOSING, SCORING):
        mine = tally.groups.keys % 2 == half
        assert mine.any()
        links_there = tally.groups.count[mine][:, :, tally.kinds].sum(0)
        np.testing.assert_array_equal(links_there, tally.asked[..., half])
        np.testing.assert_array_equal(tally.group_hits[mine].sum(0), tally.hits[..., half])
