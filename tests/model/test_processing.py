"""The checkpoint's own processor, and what is asked of it."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from attnprobe.errors import AttnprobeError
from attnprobe.model.processing import Processor, SeeingProcessor, load_processor
from attnprobe.model.quirks import UnsupportedModelError

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 56, 3), np.uint8)


@pytest.fixture
def eye(media_model):
    return load_processor("image", media_model("vit"), "vit", None, None)


def test_pixels_are_those_of_transformers(eye, media_model):
    theirs = transformers.AutoImageProcessor.from_pretrained(media_model("vit"), backend="pil")
    ours = eye(IMAGE)
    assert set(ours) == {"pixel_values"}
    assert torch.equal(ours["pixel_values"], theirs(images=IMAGE, return_tensors="pt")["pixel_values"])


@pytest.mark.parametrize(
    ("name", "rate", "window", "fixed"),
    [
        ("wav2vec2", 16_000, 480_000, False),
        ("whisper", 16_000, 16_000, True),
        ("audio-spectrogram-transformer", 16_000, 10_240, True),
    ],
)
def test_sound(media_model, name, rate, window, fixed):
    processor = load_processor("sound", media_model(name), name, None, None)
    assert isinstance(processor, Processor)
    assert (processor.rate, processor.window, processor.fixed) == (rate, window, fixed)


@pytest.mark.parametrize("kind", ["image", "sound"])
def test_none(tmp_path, kind):
    with pytest.raises(UnsupportedModelError, match=f"no processor of {kind}.* that loads"):
        load_processor(kind, tmp_path, "it", None, None)


def test_padding_at_the_end_is_cut():
    """As that of wav2vec2-bert, to an even number of frames."""

    def pad(*_, **__):
        features = torch.arange(8.0).view(1, 4, 2)
        return {"input_features": features, "attention_mask": torch.tensor([[1, 1, 1, 0]])}

    inputs = Processor("sound", pad, 16_000)(np.zeros(3, np.float32))
    assert list(inputs) == ["input_features"]
    assert inputs["input_features"].tolist() == [[[0, 1], [2, 3], [4, 5]]]


def test_one_that_pads():
    def pad(*_, **__):
        return {"input_values": torch.ones(1, 4), "attention_mask": torch.tensor([[0, 1, 1, 1]])}

    with pytest.raises(AttnprobeError, match="pads what it reads"):
        Processor("sound", pad, 16_000)(np.zeros(3, np.float32))
    with pytest.raises(AttnprobeError, match="pads what it reads"):
        SeeingProcessor(pad, 5)(IMAGE, "a dog")


def test_without_pillow(monkeypatch):
    monkeypatch.setattr("attnprobe.model.processing.find_spec", lambda name: None)
    with pytest.raises(AttnprobeError, match="pip install pillow"):
        load_processor("image", Path(), "it", None, None)


def test_one_that_fails():
    def fail(*_, **__):
        raise ValueError("too loud\nby far")

    with pytest.raises(AttnprobeError, match=r"^The checkpoint's processor fails: too loud\.$"):
        Processor("sound", fail, 16_000)(np.zeros(4, np.float32))
