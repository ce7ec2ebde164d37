"""What a loaded checkpoint says of its inputs: what a decoder reads, how long a text may be, its towers."""

from types import SimpleNamespace
from typing import Any

import every_type
import pytest
import torch
from transformers.models.bart.modeling_bart import shift_tokens_right
from transformers.models.mbart.modeling_mbart import shift_tokens_right as put_last_first

from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint, check_modality, find_tower, resolve_max_length

TARGET = [5, 9, 7, 2]


@pytest.mark.parametrize("start", [0, 3, None])
def test_a_decoder_reads_what_it_reads_in_training(copied, start):
    """Without a token to start with, the last of the target goes first, as in mBART."""
    model, tokenizer = copied("t5")
    model.config.decoder_start_token_id = start
    target = torch.tensor([TARGET])
    expected = put_last_first(target, 0) if start is None else shift_tokens_right(target, 0, start)
    assert Checkpoint("t5", model, tokenizer).shift_right(TARGET) == expected[0].tolist()


# RoBERTa numbers tokens from 2.
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_text_may_be_as_long_as_there_are_positions(tiny, kind):
    model, _ = tiny(kind)
    tokenizer: Any = SimpleNamespace(model_max_length=10**30)
    longest = Checkpoint(kind, model, tokenizer).longest
    assert longest is not None
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


@pytest.mark.parametrize(
    ("name", "modality", "tower"),
    [
        ("bert", "text", ""),
        ("vit", "image", ""),
        ("whisper", "sound", ""),
        ("clip", "text", "text_model"),
        ("clip", "image", "vision_model"),
    ],
)
def test_towers(name, modality, tower):
    assert find_tower(every_type.build(name), modality) == tower


@pytest.mark.parametrize(
    ("name", "modality", "says"),
    [
        ("bert", "image", "reads text"),
        ("vit", "text", "reads images"),
        ("wav2vec2", "image", "reads sound"),
        ("clip", "sound", "reads text and images"),
    ],
)
def test_another_modality_is_refused(name, modality, says):
    with pytest.raises(AttnprobeError, match=says):
        check_modality("x", every_type.configuration(name), modality)


def test_a_model_of_one_type_of_tokens_reads_no_pairs(tiny, monkeypatch):
    model, tokenizer = tiny("bert")
    monkeypatch.setattr(model.config, "type_vocab_size", 1)
    with pytest.raises(AttnprobeError, match="x was not made for pairs of texts"):
        Checkpoint("x", model, tokenizer).inputs({"token_type_ids": torch.ones(1, 3, dtype=torch.long)})


class TestWindow:
    """The length of windows: what was asked for, or what the model takes."""

    @pytest.mark.parametrize(("name", "longest"), [("bert", 184), ("roberta", 184), ("t5", None)])
    def test_longest(self, checkpoint, name, longest):
        assert checkpoint(name).longest == longest
        assert resolve_max_length(None, checkpoint(name)) == (longest or 512)

    def test_more_than_the_model_takes(self, checkpoint):
        assert resolve_max_length(184, checkpoint("bert")) == 184
        with pytest.raises(AttnprobeError, match="--max-length 185 is more than the 184 tokens"):
            resolve_max_length(185, checkpoint("bert"))
