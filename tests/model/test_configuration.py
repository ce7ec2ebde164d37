"""Configurations that no model can have end in what is wrong with them, and what to do."""

import json

import pytest

from attnprobe.errors import AttnprobeError, AttnprobeWarning, first_line
from attnprobe.model import configuration
from attnprobe.model.configuration import warn_of_many_tokens
from attnprobe.model.hub import CheckpointFiles
from attnprobe.model.load import load_checkpoint
from attnprobe.model.location import LoadOptions

IMPOSSIBLE = [
    ({"num_attention_heads": 0}, "num_attention_heads is 0, and must be a whole number of at least 1"),
    ({"num_attention_heads": "four"}, "num_attention_heads is 'four', and must be"),
    ({"intermediate_size": 1.5}, "intermediate_size is 1.5, and must be"),
    ({"dtype": "floatx"}, "dtype is 'floatx', which is no floating-point type of torch"),
    ({"id2label": 7}, "can't be used: "),
]


@pytest.mark.parametrize(("change", "said"), IMPOSSIBLE)
def test_impossible_configurations(saved, tmp_path, change, said):
    folder = tmp_path / "broken"
    folder.mkdir()
    for path in saved("bert").iterdir():
        (folder / path.name).symlink_to(path)
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(AttnprobeError) as caught:
        load_checkpoint(str(folder), LoadOptions())
    assert said in str(caught.value)
    assert str(caught.value).endswith("Take the config.json that was saved with the weights.")
    if "dtype" in change:
        with pytest.raises(AttnprobeError, match="no floating-point type"):
            _ = CheckpointFiles.read(str(folder), LoadOptions()).config


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("Validation error for field 'x':\n    TypeError: expected int."),
         "Validation error for field 'x': TypeError: expected int"),
        (NotImplementedError("forward"), "NotImplementedError: forward"),
        (ValueError(), "ValueError"),
        (ValueError("It is so.\nMore."), "It is so"),
        (AttnprobeError("word"), "word"),
    ],
)  # fmt: skip
def test_the_first_line_says_something(error, said):
    assert first_line(error) == said


def test_a_tokenizer_that_takes_minutes_is_said_to(tmp_path, monkeypatch):
    said = {"additional_special_tokens": [f"<{number}>" for number in range(11)]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said))
    warn_of_many_tokens(tmp_path, "mine")
    monkeypatch.setattr(configuration, "_MANY", 10)
    with pytest.warns(AttnprobeWarning, match="The tokenizer of mine has 11 extra special tokens"):
        warn_of_many_tokens(tmp_path, "mine")
