"""Physically pruned folders in every command, against the same model with the heads' weights at zero."""

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy import special
from transformers import AutoTokenizer, BertForSequenceClassification, BertModel

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
    found = {}
    for kind in ("physical", "baked"):
        folder = tmp_path_factory.mktemp(kind) / "bert"
        physical = kind == "physical"
        save_pruned(
            remove_heads(whole, KEEP, physical=physical), whole, KEEP, folder, physical=physical, record={}
        )
        found[kind] = str(folder)
    return found


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


def maps_of(folder: str, text: str) -> list[NDArray[Any]]:
    """Give the maps (head, query, key) of a layer's heads that stand, as transformers gives them."""
    model: Any = BertModel.from_pretrained(folder, attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    return [rows[0, KEEP[layer]].detach().double().numpy() for layer, rows in enumerate(given)]


class TestCensus:
    def test_every_column(self, folders: dict[str, str]):
        """What is about a head alone is that of the same head of the other folder."""
        _, found, expected = of_both(lambda folder: attnprobe.census(folder, TEXTS), folders)
        among = [name for name in found if name.startswith(("jsd", "nearest"))]
        for name in found.columns.difference(among):
            if pd.api.types.is_numeric_dtype(found[name]):
                np.testing.assert_allclose(found[name], expected[name], atol=2e-5, err_msg=name)
        assert (found["n"] == len(TEXTS)).all()
        assert found["entropy"].notna().all()

    def test_every_column_by_norm(self, folders: dict[str, str]):
        """A head that gives nothing is none where rows are weighted by what they carry, so all agree."""
        _, found, expected = of_both(lambda folder: attnprobe.census(folder, TEXTS, weights="norm"), folders)
        numbers = [name for name in found if pd.api.types.is_numeric_dtype(found[name])]
        assert {"entropy_norm", "jsd_mean_norm", "norm_total"} <= set(numbers)
        for name in numbers:
            np.testing.assert_allclose(found[name], expected[name], atol=2e-5, err_msg=name)
        assert found["entropy_norm"].notna().all()
        whole = attnprobe.census(folders["baked"], TEXTS, weights="norm").to_pandas()
        gone = [pair not in STANDING for pair in zip(whole["layer"], whole["head"], strict=True)]
        assert (whole["norm_total"][gone] == 0).all()
        assert whole["entropy_norm"][gone].isna().all()

    def test_distance_to_the_heads_that_are_left(self, folders: dict[str, str]):
        text = TEXTS[5]
        found = attnprobe.census(folders["physical"], [text]).to_pandas().set_index(["layer", "head"])
        pairs = attnprobe.distance(folders["physical"], [text], by="pair").to_pandas()
        layers = attnprobe.distance(folders["physical"], [text], by="layer").to_pandas()
        expected: dict[tuple[int, int, int], float] = {}
        for layer, rows in enumerate(maps_of(folders["baked"], text)):
            numbers = np.flatnonzero(KEEP[layer])
            for (i, a), (j, b) in combinations(enumerate(numbers), 2):
                middle = special.entr((rows[i] + rows[j]) / 2).sum(-1)
                apart = middle - (special.entr(rows[i]) + special.entr(rows[j])).sum(-1) / 2
                expected[layer, int(a), int(b)] = apart.mean()
        assert list(zip(pairs["layer_a"], pairs["head_a"], pairs["head_b"], strict=True)) == list(expected)
        np.testing.assert_allclose(pairs["jsd"], list(expected.values()), atol=1e-5)
        for layer, head in STANDING:
            mine = [value for key, value in expected.items() if key[0] == layer and head in key[1:]]
            np.testing.assert_allclose(found.loc[(layer, head), "jsd_mean"], np.mean(mine), atol=1e-5)
        for layer in (0, 2):
            mine = [value for key, value in expected.items() if key[0] == layer]
            np.testing.assert_allclose(layers["jsd_mean"][layer], np.mean(mine), atol=1e-5)
        assert np.isnan(layers["jsd_mean"][1])
        assert layers["odd_head"][2] in {0, 1, 2}

    def test_all_pairs(self, folders: dict[str, str]):
        found = attnprobe.distance(folders["physical"], TEXTS[:3], by="pair", all_pairs=True).to_pandas()
        whole = attnprobe.distance(folders["baked"], TEXTS[:3], by="pair", all_pairs=True).to_pandas()
        keys = ["layer_a", "head_a", "layer_b", "head_b"]
        there = [(a, b) in STANDING and (c, d) in STANDING for a, b, c, d in whole[keys].to_numpy()]
        assert len(found) == 5 * 4 // 2
        pd.testing.assert_frame_equal(
            found[[*keys, "jsd"]], whole[there].reset_index(drop=True)[[*keys, "jsd"]], atol=1e-5
        )

    def test_rank(self, folders: dict[str, str]):
        """The baked folder keeps the queries and keys of the removed, whose weights nobody zeroes there."""
        _, found, expected = of_both(
            lambda folder: attnprobe.rank(folder, TEXTS, map_rank=True, dtype="float64"), folders
        )
        for name in found.select_dtypes("number"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-12, err_msg=name)
        assert found["qk_rank"].notna().all()
        assert set(found["head_width"]) == {8}

    def test_merged(self, folders: dict[str, str], tmp_path: Path):
        parts = [attnprobe.entropy(folders["physical"], some) for some in (TEXTS[:4], TEXTS[4:])]
        whole = attnprobe.entropy(folders["physical"], TEXTS).to_pandas()
        found = attnprobe.merge(parts).to_pandas()
        np.testing.assert_allclose(found["entropy"], whole["entropy"], rtol=1e-6)
        assert list(zip(found["layer"], found["head"], strict=True)) == STANDING


class TestInterventions:
    def test_importance(self, folders: dict[str, str]):
        table, found, expected = of_both(
            lambda folder: attnprobe.importance(folder, TEXTS, LABELS, dtype="float64"), folders
        )
        for name in ("importance", "importance_se", "importance_normalized", "importance_normalized_se"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-12)
        assert set(found["objective"]) == {"classification"}
        assert "head" in table.notes[0]

    def test_confidence(self, folders: dict[str, str]):
        _, found, expected = of_both(
            lambda folder: attnprobe.importance(folder, TEXTS, method="confidence"), folders
        )
        np.testing.assert_allclose(found["importance"], expected["importance"], atol=1e-6)

    @pytest.mark.parametrize("keep_one", [False, True])
    def test_ablate(self, folders: dict[str, str], keep_one: bool):
        _, found, expected = of_both(
            lambda folder: attnprobe.ablate(
                folder, TEXTS, LABELS, metric="loss", keep_one=keep_one, dtype="float64"
            ),
            folders,
        )
        for name in ("baseline", "score", "delta", "delta_se", "p"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found["p_adjusted"], adjust(list(expected["p"]), "holm"), rtol=1e-6)

    def test_prune_again(self, folders: dict[str, str], tmp_path: Path):
        """It goes on where the folder ends, and keeps the record of what went before."""
        options: Any = {"random_orders": 1, "step": 0.2}
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

    def test_only_smaller_still(self, folders: dict[str, str], tmp_path: Path):
        with pytest.raises(AttnprobeError, match=r"pruned already, .* add --physical"):
            attnprobe.prune(folders["physical"], TEXTS, LABELS, save=tmp_path / "x", share=0.5)

    def test_no_head_is_made_up(self, folders: dict[str, str]):
        with pytest.raises(AttnprobeError, match="leave out --force-head"):
            attnprobe.importance(folders["physical"], TEXTS, objective="masked-lm", force_head=True)


def test_doctor(folders: dict[str, str]):
    table = attnprobe.doctor(folders["physical"])
    said = dict(zip(table["check"], table["detail"], strict=True))
    assert "failed" not in set(table["status"])
    assert said["architecture"].startswith("bert: 3 layers x 4 heads")
    assert said["heads"] == (
        "7 of 12 are removed, and the others keep their numbers; left are 2 in layer 0, 0 in layer 1, "
        "3 in layer 2"
    )
    assert said["trained heads"] == "sequence classification"
