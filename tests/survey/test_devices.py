"""Layers on several devices: what is known about tokens follows the attention."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import NOTHING, Kind, Observed
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.model.reading.capture import Piece
from attnprobe.statistics import all_statistics
from attnprobe.statistics.distance import ALL_PAIRS
from attnprobe.survey import recorder as recording
from attnprobe.survey.recorder import Recorder

BATCH, HEADS, LENGTH = 2, 3, 5
STATISTICS = [
    statistic
    for statistic in all_statistics().values()
    if statistic.about != "patches"
    and statistic.family.name not in {"links", "norm"}
    and statistic.scope != "parameters"
    and not statistic.needs
]


class Corpus(BatchReader):
    def gather(self, members: np.ndarray) -> Batch:
        raise NotImplementedError


CORPUS = Corpus()


def tokens(device: str) -> TokenFeatures:
    no = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    rank = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    made = TokenFeatures(no, no, no, ~no, no.float(), ~no, rank, rank)
    return made.to(device)


@pytest.mark.parametrize("elsewhere", ["cpu", pytest.param("cuda:0", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU"))])  # fmt: skip
@pytest.mark.parametrize("first", ["cpu", "second"])
def test_layers_apart(first: str, elsewhere: str):
    """Attention of one layer on the processor and of the next elsewhere, and the other way round."""
    maps = [torch.randn(BATCH, HEADS, LENGTH, LENGTH).softmax(-1) for _ in range(2)]
    queries, keys = (torch.randn(BATCH, HEADS, LENGTH, 3) for _ in range(2))
    where = ["cpu", elsewhere] if first == "cpu" else [elsewhere, "cpu"]
    values = []
    for devices in (["cpu", "cpu"], where):
        recorder = Recorder(STATISTICS, [Kind.ENCODER] * 2, np.ones((2, HEADS), bool))
        recorder.begin(Batch({}, tokens(devices[1]), np.arange(BATCH), CORPUS))
        for layer, (device, rows) in enumerate(zip(devices, maps, strict=True)):
            seen = Observed(queries=queries.to(device), keys=keys.to(device))
            recorder(Piece(layer, 0, 0, LENGTH, rows.to(device), seen))
        values.append(recorder.finish())
    for name, cells in values[0].items():
        assert torch.allclose(
            torch.from_numpy(values[1][name]), torch.from_numpy(cells), atol=1e-5, equal_nan=True
        )


def test_tokens_follow(monkeypatch: pytest.MonkeyPatch):
    """Every block sees tokens on its own device; a device without numbers shows it on any machine."""
    seen: list[tuple[str, set[str]]] = []
    right = recording.AttentionBlock

    def block(
        probabilities: torch.Tensor, layout: Layout, offset: int = 0, observed: Observed = NOTHING
    ) -> AttentionBlock:
        sides = (layout.queries, layout.keys)
        names = [field.name for field in fields(TokenFeatures) if field.name != "mixed"]
        devices = {str(getattr(side, name).device) for side in sides for name in names}
        seen.append((str(probabilities.device), devices))
        return right(torch.full(probabilities.shape, 1 / LENGTH), mine, offset, observed)

    mine = Layout.of(tokens("cpu"))
    monkeypatch.setattr(recording, "AttentionBlock", block)
    by_layer = [statistic for statistic in STATISTICS if statistic is not ALL_PAIRS and not statistic.needs]
    recorder = Recorder(by_layer, [Kind.ENCODER] * 2, np.ones((2, HEADS), bool))
    recorder.begin(Batch({}, mine.keys, np.arange(BATCH), CORPUS))
    for layer, device in enumerate(("cpu", "meta")):
        recorder(Piece(layer, 0, 0, LENGTH, torch.empty(BATCH, HEADS, LENGTH, LENGTH, device=device)))
    recorder.finish()
    assert seen == [("cpu", {"cpu"}), ("meta", {"meta"})]
