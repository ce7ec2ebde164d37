"""Changing the files of a checkpoint, and the sentences that refuse them."""

import json

import pytest
from safetensors.torch import load_file, save_file

from attnprobe.errors import AttnprobeError


def edit_json(path, **changes):
    """Change entries of a JSON object in a file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder, change):
    """Change the stored weights of a folder."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    weights = {key: weight.contiguous() for key, weight in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def refuses(ask, pattern):
    """Expect one plain sentence that matches, and give it."""
    with pytest.raises(AttnprobeError, match=pattern) as caught:
        ask()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence
