"""Where the patches are, found by changing corners, against what the papers say of each type."""

from functools import partial
from typing import cast

import every_type
import pytest
import torch

from attnprobe.attention.layout import Grid
from attnprobe.corpus.tokenizer import NoTokenizer
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.check.trace import catch_tokens, find_grid
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import Processor


class Noise:
    """Stands for a processor: gives noise of the shape that a test asks for."""

    def __init__(self, name, *shape):
        self._name, self._shape = name, shape

    def noise(self, number):
        draw = torch.Generator().manual_seed(number)
        return {self._name: torch.randn(1, *self._shape, generator=draw)}


def checkpoint(name, *shape, given="pixel_values", **changes):
    model, processor = every_type.build(name, **changes), cast(Processor, Noise(given, *shape))
    modality = "image" if given == "pixel_values" else "sound"
    return Checkpoint(name, model, NoTokenizer(name), modality=modality, processor=processor)


AST = "audio-spectrogram-transformer"


OVERLAPPING = {
    "given": "input_values",
    "num_mel_bins": 21,
    "max_length": 65,
    "frequency_stride": 6,
    "time_stride": 5,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("build", "grid"),
    [
        (partial(checkpoint, "vit", 3, 24, 40, image_size=(24, 40)), Grid(1, 3, 5)),
        (partial(checkpoint, "dinov3_vit", 3, 32, 48, num_register_tokens=2), Grid(3, 4, 6)),
        (partial(checkpoint, "vit_mae", 3, 32, 32, mask_ratio=0.75), Grid(1, 4, 4)),
        # Patches that overlap, and leave rows and columns unread at the borders, as those of the real one.
        (partial(checkpoint, AST, 65, 21, **OVERLAPPING), Grid(2, 3, 12)),
    ],
    ids=lambda value: str(value.args) if isinstance(value, partial) else "",
)  # fmt: skip
def test_known_grids(build, grid):
    architecture = inspect(build())
    assert architecture.grid == grid
    assert any(f"{grid.rows} x {grid.columns} patches" in sentence for sentence in architecture.evidence)


def test_a_single_row_is_no_grid():
    architecture = inspect(checkpoint("dinov2", 3, 8, 48))
    assert architecture.grid is None
    assert any("no patches in rows" in warning for warning in architecture.warnings)


def test_mixed_tokens_are_no_patches():
    """Convolutions in front of the layers spread a corner over several tokens."""
    whisper = checkpoint("whisper", 8, 46, given="input_features", decoder_start_token_id=2)
    whisper = Checkpoint(**(vars(whisper) | {"encoder_only": True}))
    site = "layers.0.self_attn"
    inputs = {"input_features": torch.randn(2, 8, 46)}
    assert catch_tokens(whisper, inputs, site) is not None
    assert find_grid(whisper, inputs, site) is None
