"""Images and texts that are read together: every column against plain torch over a model's own eager maps."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import seeing_models
import torch
import transformers
from numpy.typing import NDArray

import attnprobe
from attnprobe.corpus.media import read_image
from attnprobe.model.load import load_checkpoint

pytest.importorskip("PIL")

#: Of PaliGemma's own processor.
pytestmark = pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
EVERY = ("llava", "gemma3")
Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write pairs of images and texts as JSON lines."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = seeing_models.draw_pairs(folder / "seen")
    lines = [json.dumps({"image": f"seen/{path.name}", "text": text}) for path, text in pairs]
    (folder / "pairs.jsonl").write_text("\n".join(lines))
    return folder / "pairs.jsonl"


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Write a tiny model that sees and reads, once."""
    known: dict[str, Path] = {}

    def save(name: str) -> Path:
        if name not in known:
            known[name] = seeing_models.save(name, tmp_path_factory.mktemp("models") / name)
        return known[name]

    return save


def read_eagerly(folder: Path, data: Path) -> list[tuple[Floats, NDArray[np.str_]]]:
    """Give the eager maps (layer, head, query, key) of each pair, and the sort of each token."""
    processor = load_checkpoint(str(folder), modality="image+text").processor
    assert processor is not None
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    maps = []
    for line in data.read_text().splitlines():
        row = json.loads(line)
        given = processor.inner(
            images=read_image(data.parent / row["image"]), text=f"{processor.mark}{row['text']}",
            return_tensors="pt",
        )  # fmt: skip
        given.pop("labels", None)
        with torch.inference_mode():
            output = model(**given, output_attentions=True, use_cache=False)
        layers = output.get("language_model_outputs", output).attentions
        ids = given["input_ids"][0].numpy()
        special = np.isin(ids, processor.inner.tokenizer.all_special_ids)
        sorts = np.where(ids == processor.placeholder, "image", np.where(special, "special", "text"))
        maps.append((torch.cat(layers).double().numpy(), sorts))
    return maps


def measure(rows: Floats, sorts: NDArray[np.str_]) -> dict[str, Floats]:
    """Compute every column of one sequence by its definition, (layer, head)."""
    seen = (rows.reshape(-1, *rows.shape[2:]) > 0).any(0)
    values: dict[str, Floats] = {}
    # Who asks, and how columns call it.
    for who in ("any", "text", "image"):
        asks = np.ones(len(sorts), bool) if who == "any" else sorts == who
        for what in ("image", "text", "special"):
            keys = sorts == what
            mass = rows[..., keys].sum(-1)
            name = f"{what}_mass" if who == "any" else f"{who}_to_{what}"
            values[name] = mass[..., asks].mean(-1)
            if what == "special":
                continue
            share = (seen & keys).sum(1) / seen.sum(1)
            queries = asks & (share > 0)
            stem = what if who == "any" else name
            with np.errstate(invalid="ignore", divide="ignore"):
                nothing = np.full(rows.shape[:2], np.nan)
                lift = mass[..., queries].mean(-1) / share[queries].mean() if queries.any() else nothing
                values[f"{stem}_lift"] = lift
                if who != "any":
                    q = rows[..., keys] / mass[..., None]
                    entropy = -np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0).sum(-1)
                    values[f"{name}_entropy"] = entropy[..., queries].mean(-1) if queries.any() else nothing
    queries = (sorts == "text") & (seen & (sorts == "image")).any(1)
    looks = (sorts == "image")[rows.argmax(-1)]
    values["text_to_image_peak"] = looks[..., queries].mean(-1)
    return values


def columns(table: Any) -> pandas.DataFrame:
    return pandas.DataFrame(table.data)


@pytest.mark.parametrize("name", EVERY)
def test_columns_are_those_of_eager_maps(name: str, seeing: Any, data: Path):
    folder = seeing(name)
    parts = [measure(*one) for one in read_eagerly(folder, data)]
    table = columns(attnprobe.modality(str(folder), data))
    assert len(parts[0]) == 20
    assert (table["n"] == len(parts)).all()
    for column in parts[0]:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # what is defined nowhere
            expected = np.nanmean(np.stack([part[column] for part in parts]), 0).ravel()
        np.testing.assert_allclose(
            table[column].astype(float), expected, rtol=2e-4, atol=2e-5, err_msg=column
        )


@pytest.mark.parametrize("queries", ["text", "image"])
def test_queries_of_one_modality(queries: Any, seeing: Any, data: Path):
    """Entropy, distance and the rest are means over these queries alone."""
    folder = seeing("llava")
    chosen = ["entropy", "confidence", "attention_distance", "sink_share", "jsd_mean", "image_mass"]
    table = columns(attnprobe.census(str(folder), data, statistics=chosen, queries=queries))
    every: dict[str, list[Floats]] = {one: [] for one in chosen}
    for rows, sorts in read_eagerly(folder, data):
        asks = sorts == queries
        asking_rows = rows[..., asks, :]
        entropy = -np.where(
            asking_rows > 0, asking_rows * np.log(np.where(asking_rows > 0, asking_rows, 1)), 0
        ).sum(-1)
        every["entropy"].append(entropy.mean(-1))
        every["confidence"].append(asking_rows.max(-1).mean(-1))
        distances = np.abs(np.arange(len(sorts)) - np.arange(len(sorts))[:, None])[asks]
        every["attention_distance"].append((asking_rows * distances).sum(-1).mean(-1))
        sinks = (sorts == "special") | (np.arange(len(sorts)) == 0)
        every["sink_share"].append(sinks[asking_rows.argmax(-1)].mean(-1))
        every["image_mass"].append(asking_rows[..., sorts == "image"].sum(-1).mean(-1))
        heads = range(asking_rows.shape[1])
        pairs = np.stack(
            [
                np.stack([divergence(asking_rows[:, a], asking_rows[:, b]) for b in heads if b != a]).mean(0)
                for a in heads
            ],
            1,
        )
        every["jsd_mean"].append(pairs)
    for column, parts in every.items():
        expected = np.stack(parts).mean(0).ravel()
        np.testing.assert_allclose(
            table[column].astype(float), expected, rtol=2e-4, atol=2e-5, err_msg=column
        )


def divergence(a: Floats, b: Floats) -> Floats:
    """Jensen-Shannon divergence of two heads, averaged over queries: (layer,)."""

    def entropy(rows: Floats) -> Floats:
        return -np.where(rows > 0, rows * np.log(np.where(rows > 0, rows, 1)), 0).sum(-1)

    return (entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2).mean(-1)
