"""A pass over a corpus: everything at once, what is refused, many documents; and what ``doctor`` says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import every_type
import numpy as np
import pytest
import seeing_models
import torch

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import load_checkpoint
from attnprobe.survey.diagnosis import Finding, diagnose

TEXTS = [
    "the dog ran to the river",
    "a parcel came late, and she knew",
    "it rained",
    "why did the train stop",
]


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_as_the_commands_give_them(saved, name):
    whole = attnprobe.census(saved(name), TEXTS, everything=True)
    parts = [
        attnprobe.census(saved(name), TEXTS, weights="both"),
        attnprobe.rank(saved(name), TEXTS),
        attnprobe.mixing(saved(name), TEXTS),
    ]
    there = [name for part in parts for name in part.data]
    assert set(whole.data) == set(there)
    for part in parts:
        for column in part.columns:
            actual, expected = whole[column.name], part[column.name]
            if column.role in {"measure", "error"}:
                np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9, err_msg=column.name)
            else:
                assert actual.tolist() == expected.tolist()
            assert whole.column(column.name).unit == column.unit
        missing = [note for note in part.notes if note not in whole.notes and "empty" not in note]
        assert not missing


def test_what_a_model_does_not_give_is_left_out(saved):
    table = attnprobe.census(saved("deberta-v2"), TEXTS, everything=True)
    assert {"entropy", "jsd_mean", "explained_by_others"} <= set(table.data)
    assert not {"entropy_norm", "norm_total", "contribution_norm", "logit_rank"} & set(table.data)
    assert np.isfinite(table["explained_by_others"]).all()
    notes = " ".join(table.notes)
    for name in ("contribution_norm", "logit_rank", "entropy_norm"):
        assert name in notes
    assert "could not be measured: attnprobe can't read" in notes


def test_hidden_states_that_overflow_are_refused(copied: Callable[[str], Any], monkeypatch: Any):
    """Attention of every layer may well be finite where the last output is not, in one text of several."""
    model, tokenizer = copied("bert")
    run = model.forward

    def overflow(*args: Any, **options: Any) -> Any:
        output = run(*args, **options)
        if output.last_hidden_state.shape[1] == 5:  # not what the dry run reads
            output.last_hidden_state[:, -1, 0] = torch.inf
        return output

    monkeypatch.setattr(model, "forward", overflow)
    with pytest.raises(AttnprobeError, match="BertModel produced NaN or infinite hidden states"):
        attnprobe.entropy(model, ["the dog", "the dog ran"], tokenizer=tokenizer)


# What ``doctor`` says of models that are odd


def find(findings: list[Finding], words: str) -> Finding:
    return next(one for one in findings if words in one.detail)


def test_the_trained_head_of_a_model_that_sees(tmp_path: Path):
    pytest.importorskip("PIL")
    folder = seeing_models.save("llava", tmp_path / "llava")
    findings = diagnose(load_checkpoint(str(folder), modality="image+text"))
    assert find(findings, "image and text to text").check == "trained heads"


def test_which_attention_of_falcon_is_measured(tiny: Any):
    """With ALiBi, its eager attention adds the bias twice."""
    model = every_type.build("falcon", alibi=True, multi_query=False, new_decoder_architecture=False)
    finding = find(diagnose(Checkpoint("falcon", model, tiny("bert")[1])), "own eager maps")
    assert (finding.check, finding.status) == ("dry run", "warning")
    assert "what is measured is the attention that it runs by itself" in finding.detail


def test_scores_of_sparse_attention_are_those_of_full_attention(tiny: Any):
    model = every_type.build("big_bird")
    finding = find(diagnose(Checkpoint("big_bird", model, tiny("bert")[1])), "block-sparse")
    assert "its scores and losses are those of full attention too" in finding.detail
