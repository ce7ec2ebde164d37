"""Which simple rule a head has to beat: the one that ``syntax`` compares it with, of a tie too."""

import numpy as np

from attnprobe.statistics.links import ASKING_SYNTAX
from attnprobe.statistics.role_table import found_by
from attnprobe.statistics.rules import FURTHEST, OFFSETS
from attnprobe.sums.tally import CHOOSING, SCORING, Tally


def test_of_a_tie_the_nearest_offset():
    """Two offsets find as much on the one half, and the nearer one finds everything on the other."""
    documents = 200
    tally = Tally.empty([("det", ASKING_SYNTAX.forward)], [0], 1, len(OFFSETS), np.zeros(0, np.int64))
    tally.asked[:], tally.clusters[:], tally.asked_squared[:] = documents, documents, documents
    for whole in (tally.hits, tally.hits_squared, tally.products):
        whole[:] = documents
    near, far = FURTHEST + 1, 0
    tally.guessed[0, 0, [near, far], CHOOSING] = 50
    assert [role.name for role in found_by(tally, ASKING_SYNTAX, "syntactic", 0.1)[0]] == ["syntactic: det"]
    tally.guessed[0, 0, near, SCORING] = documents
    for whole in (tally.guessed_squared, tally.guess_products):
        whole[0, 0, near] = documents
    for whole in (tally.both, tally.agreed):
        whole[0, 0, 0, near] = documents
    assert found_by(tally, ASKING_SYNTAX, "syntactic", 0.1) == [[]]
