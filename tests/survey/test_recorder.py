"""What a recorder keeps of a batch, and what it refuses."""

import numpy as np
import pytest
import torch

from attnprobe.attention.kinds import Kind
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.reading.capture import Piece
from attnprobe.survey.recorder import Recorder

HEADS, LENGTH = 3, 5


def open_recorder(*kinds, standing=None):
    no, rank = torch.zeros(2, LENGTH, dtype=torch.bool), torch.zeros(2, LENGTH, dtype=torch.long)
    features = TokenFeatures(no, no, no, ~no, no.float(), ~no, rank, rank)
    every = np.ones((len(kinds), HEADS), bool)
    recorder = Recorder([], kinds, every if standing is None else standing, keep=True)
    recorder.begin(Batch({}, features, np.arange(2)))
    return recorder


def test_blocks_are_put_in_their_places():
    """Sequences and queries come in blocks, and one head of the second layer is not there."""
    standing = np.ones((2, HEADS), bool)
    standing[1, 1] = False
    recorder = open_recorder(Kind.ENCODER, Kind.ENCODER, standing=standing)
    maps = [torch.rand(2, heads, LENGTH, LENGTH).softmax(-1) for heads in (3, 2)]
    for layer, rows in enumerate(maps):
        for sequence in range(2):
            for query in (0, 3):
                block = rows[sequence : sequence + 1, :, query : query + 3]
                recorder(Piece(layer, sequence, query, LENGTH, block))
    assert recorder.finish() == {}
    kept, _ = recorder.maps()[Kind.ENCODER]
    torch.testing.assert_close(kept, torch.cat(maps, 1))


@pytest.mark.parametrize("layers", [1, 3])
def test_other_layers_than_in_the_dry_run(layers):
    recorder = open_recorder(Kind.ENCODER, Kind.ENCODER)
    for layer in range(layers):
        recorder(Piece(layer, 0, 0, LENGTH, torch.rand(2, HEADS, LENGTH, LENGTH)))
    with pytest.raises(AttnprobeError, match=f"{layers} layers was read, and of 2 in the dry run"):
        recorder.finish()


@pytest.mark.parametrize("shape", [(LENGTH, LENGTH + 1), (LENGTH + 1, LENGTH)])
def test_other_places_than_tokens(shape):
    recorder = open_recorder(Kind.ENCODER)
    with pytest.raises(AttnprobeError, match="attends from"):
        recorder(Piece(0, 0, 0, shape[0], torch.rand(2, HEADS, *shape)))
