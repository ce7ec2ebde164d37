"""What ``doctor`` says of models that are odd."""

from pathlib import Path
from typing import Any

import every_type
import pytest
import seeing_models

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import load_checkpoint
from attnprobe.survey.diagnosis import Finding, diagnose


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
    found = find(diagnose(Checkpoint("falcon", model, tiny("bert")[1])), "own eager maps")
    assert (found.check, found.status) == ("dry run", "warning")
    assert "what is measured is the attention that it runs by itself" in found.detail


def test_scores_of_sparse_attention_are_those_of_full_attention(tiny: Any):
    model = every_type.build("big_bird")
    found = find(diagnose(Checkpoint("big_bird", model, tiny("bert")[1])), "block-sparse")
    assert "its scores and losses are those of full attention too" in found.detail
