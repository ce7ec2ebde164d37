"""A pass over a corpus: what can't be measured is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import attnprobe
from attnprobe.errors import AttnprobeError


def test_hidden_states_that_overflow_are_refused(copied: Callable[[str], Any], monkeypatch: Any):
    """Attention of every layer may well be finite where the last output is not, in one text of several."""
    model, tokenizer = copied("bert")
    run = model.forward

    def overflow(*args: Any, **options: Any) -> Any:
        found = run(*args, **options)
        if found.last_hidden_state.shape[1] == 5:  # not what the dry run reads
            found.last_hidden_state[:, -1, 0] = torch.inf
        return found

    monkeypatch.setattr(model, "forward", overflow)
    with pytest.raises(AttnprobeError, match="BertModel produced NaN or infinite hidden states"):
        attnprobe.entropy(model, ["the dog", "the dog ran"], tokenizer=tokenizer)
