"""Physically pruned folders in every command, against the same model with the heads' weights at zero."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertForSequenceClassification

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.pruning import RECORD, load_pruned, save_pruned
from attnprobe.model.removing import remove_heads
from attnprobe.sums.inference import adjust

LAYERS, HEADS = 3, 4
#: Two of four, none, one, in this order of layers.
KEEP = np.array([[False, True, False, True], [False] * 4, [True, True, True, False]])
TEXTS = [
    "the river bank was slow", "a bird ran over the red house", "is it late ?", "stone", "a dog and a cat",
    "he and she walk to the train stop , never by night , always by day", "the parcel came early", "a bird",
    "blue water and red light",
]  # fmt: skip
LABELS = [0, 1, 2, 0, 1, 2, 0, 1, 2]
STANDING = [(layer, head) for layer in range(LAYERS) for head in range(HEADS) if KEEP[layer, head]]


@pytest.fixture(scope="module")
def folders(tiny: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write the same classifier twice: physically smaller, and with the heads' weights at zero."""
    body, tokenizer = tiny("bert")
    torch.manual_seed(0)
    config = body.config.__class__(**{**body.config.to_dict(), "num_labels": 3})
    model = BertForSequenceClassification(config)
    model.base_model.load_state_dict(body.state_dict(), strict=False)
    whole = Checkpoint("bert", model.eval().requires_grad_(False), tokenizer)
    folders = {}
    for kind in ("physical", "baked"):
        folder = tmp_path_factory.mktemp(kind) / "bert"
        physical = kind == "physical"
        save_pruned(
            remove_heads(whole, KEEP, physical=physical), whole, KEEP, folder, physical=physical, record={}
        )
        folders[kind] = str(folder)
    return folders


def standing(table: Any) -> pd.DataFrame:
    """Take the rows of heads that are not removed."""
    frame = table.to_pandas()
    rows = [pair in STANDING for pair in zip(frame["layer"], frame["head"], strict=True)]
    return frame[rows].reset_index(drop=True)


def of_both(ask: Callable[[str], Any], folders: dict[str, str]) -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    """Ask the physically smaller folder, and the other for the rows of the same heads."""
    table = ask(folders["physical"])
    frame = table.to_pandas()
    assert list(zip(frame["layer"], frame["head"], strict=True)) == STANDING
    assert any("7 heads are removed from this checkpoint" in note for note in table.notes)
    return table, frame, standing(ask(folders["baked"]))


class TestCensus:
    def test_every_column(self, folders: dict[str, str]):
        """What is about a head alone is that of the same head of the other folder."""
        _, table, expected = of_both(lambda folder: attnprobe.census(folder, TEXTS), folders)
        among = [name for name in table if name.startswith(("jsd", "nearest"))]
        for name in table.columns.difference(among):
            if pd.api.types.is_numeric_dtype(table[name]):
                np.testing.assert_allclose(table[name], expected[name], atol=2e-5, err_msg=name)
        assert (table["n"] == len(TEXTS)).all()
        assert table["entropy"].notna().all()


class TestInterventions:
    def test_importance(self, folders: dict[str, str]):
        table, frame, expected = of_both(
            lambda folder: attnprobe.importance(folder, TEXTS, LABELS, dtype="float64"), folders
        )
        for name in ("importance", "importance_se", "importance_normalized", "importance_normalized_se"):
            np.testing.assert_allclose(frame[name], expected[name], rtol=1e-6, atol=1e-12)
        assert set(frame["objective"]) == {"classification"}
        assert "head" in table.notes[0]

    @pytest.mark.parametrize("keep_one", [False, True])
    def test_ablate(self, folders: dict[str, str], keep_one: bool):
        _, frame, expected = of_both(
            lambda folder: attnprobe.ablate(
                folder, TEXTS, LABELS, metric="loss", keep_one=keep_one, dtype="float64"
            ),
            folders,
        )
        for name in ("baseline", "score", "delta", "delta_se", "p"):
            np.testing.assert_allclose(frame[name], expected[name], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(frame["p_adjusted"], adjust(list(expected["p"]), "holm"), rtol=1e-6)

    def test_prune_again(self, folders: dict[str, str], tmp_path: Path):
        """It goes on where the folder ends, and keeps the record of what went before."""
        options: Any = {"random_orders": 1, "step": 0.2}
        with pytest.raises(AttnprobeError, match="add --physical"):
            attnprobe.prune(folders["physical"], TEXTS, LABELS, save=tmp_path / "no", share=0.4, **options)
        table = attnprobe.prune(
            folders["physical"], TEXTS, LABELS, save=tmp_path / "again", share=0.4, physical=True, **options
        )
        assert sorted(set(table["heads_removed"])) == [0, 1, 2, 3, 4, 5]
        record = json.loads((tmp_path / "again" / RECORD).read_text())
        removed = {tuple(pair) for pair in record["removed"]}
        assert len(removed) == 7 + 2
        assert not removed.isdisjoint(STANDING)
        assert {(layer, head) for layer in range(3) for head in range(4)} - {*STANDING} <= removed
        left = attnprobe.entropy(str(tmp_path / "again"), TEXTS)
        pairs = list(zip(left["layer"], left["head"], strict=True))
        assert pairs == [pair for pair in STANDING if pair not in removed]
        first, again = (load_pruned(folder) for folder in (folders["physical"], tmp_path / "again"))
        assert sum(w.numel() for w in again.parameters()) < sum(w.numel() for w in first.parameters())
