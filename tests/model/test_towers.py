"""Which part of a model is asked, by what it is given."""

import every_type
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import find_tower


@pytest.mark.parametrize(
    ("name", "modality", "tower"),
    [
        ("bert", "text", ""),
        ("vit", "image", ""),
        ("wav2vec2", "sound", ""),
        ("whisper", "sound", ""),
        ("clip", "text", "text_model"),
        ("clip", "image", "vision_model"),
        ("siglip", "image", "vision_model"),
        ("flava", "image", "image_model"),
        ("dinov3_vit", "image", ""),
    ],
)
def test_towers(name: str, modality: str, tower: str):
    assert find_tower("x", every_type.build(name), modality) == tower


@pytest.mark.parametrize(
    ("name", "modality", "says"),
    [
        ("bert", "image", "reads text; give a file of text"),
        ("vit", "text", "reads images; give a folder of images with -d"),
        ("vit", "sound", "reads images; give a folder of images with -d"),
        ("wav2vec2", "image", "reads sound; give a folder of sound with -d"),
        ("clip", "sound", "reads text and images; give a file of text"),
    ],
)
def test_refused(name: str, modality: str, says: str):
    with pytest.raises(AttnprobeError, match=says):
        find_tower("x", every_type.build(name), modality)
