"""Models whose layers see windows of an image, or fewer keys than queries, against plain eager passes.

Where the tokens of Swin's windows lie, and which of them its masks hide, is written down here once more.
"""

from pathlib import Path
from typing import Any, cast

import every_type
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoImageProcessor, AutoModel, ViTImageProcessorPil
from transformers.models.swin import modeling_swin

import attnprobe
from attnprobe.attention.layout import Grid
from attnprobe.corpus.tokenization import NoTokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import gate_attention
from attnprobe.model.load import load_checkpoint
from attnprobe.model.reading.routing import Way
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.removing import bake
from attnprobe.model.verifying.dry_run import inspect

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGES, SIDE, SHIFTS = 3, 4, (0, 2, 0, 2)
#: Tokens of a tiny Swin along one side of the image, in each layer.
TOKENS = (16, 16, 8, 8)
Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a Swin, a SegFormer and some images."""
    root = tmp_path_factory.mktemp("windows")
    for name, size in (("swin", 32), ("swinv2", 32), ("segformer", 64)):
        every_type.build(name).save_pretrained(root / name)
        ViTImageProcessorPil(size={"height": size, "width": size}).save_pretrained(root / name)
    (root / "photos").mkdir()
    draw = np.random.default_rng(0)
    for number in range(IMAGES):
        picture = Image.fromarray(draw.integers(0, 255, (40, 40, 3), np.uint8))
        picture.save(root / "photos" / f"{number}.png")
    return root


def given(folder: Path, photos: Path) -> list[dict[str, torch.Tensor]]:
    own = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return [dict(own(images=Image.open(path), return_tensors="pt")) for path in sorted(photos.iterdir())]


def windows(layer: int) -> tuple[NDArray[np.int_], NDArray[np.bool_]]:
    """Say where the tokens of each window lie in the image, and which of them see each other."""
    side, shift = TOKENS[layer], SHIFTS[layer]
    places, seen = [], []
    for top in range(0, side, SIDE):
        for left in range(0, side, SIDE):
            inside = [(row, column) for row in range(SIDE) for column in range(SIDE)]
            at = np.array(
                [((top + row + shift) % side, (left + column + shift) % side) for row, column in inside]
            )
            # Tokens that the shift brought over the border see only those that came over it too.
            over = np.array([(top + r + shift >= side, left + c + shift >= side) for r, c in inside])
            places.append(at)
            seen.append((over[:, None] == over).all(-1))
    return np.array(places), np.array(seen)


def measure(rows: Array, places: NDArray[np.int_], seen: NDArray[np.bool_]) -> dict[str, Array]:
    """Measure the rows (head, query, key) of a window by the definitions; means over queries, (head,)."""
    count, step = seen.sum(1), np.stack(np.divmod(np.arange(SIDE**2), SIDE), 1)
    apart = np.sqrt(((step[:, None] - step) ** 2).sum(-1))
    shown = rows * seen
    entropy = -(shown * np.log(np.where(shown > 0, shown, 1))).sum(-1)
    found = {
        "entropy": entropy.mean(1),
        "entropy_normalized": (entropy / np.log(count))[:, count > 1].mean(1),
        "confidence": shown.max(-1).mean(1),
        "attention_distance": (shown * apart).sum(-1).mean(1),
        "attention_distance_ratio": (shown * apart).sum(-1).mean(1) / ((seen * apart).sum(1) / count).mean(),
    }
    for name, (down, right) in {
        "previous": (0, -1), "self": (0, 0), "next": (0, 1), "above": (-1, 0), "below": (1, 0)
    }.items():  # fmt: skip
        pairs = [
            (query, key)
            for query in range(SIDE**2)
            for key in range(SIDE**2)
            if seen[query, key] and tuple(places[key] - places[query]) == (down, right)
        ]
        found[name] = (
            np.mean([rows[:, query, key] for query, key in pairs], 0) if pairs else np.full(len(rows), np.nan)
        )
    return found


def logits(rows: Array, seen: NDArray[np.bool_]) -> Array:
    """Correlate what the softmax of heads was taken of, each row centred over the keys that it sees."""
    raw = np.log(np.where(seen, rows, 1))
    centred = np.where(seen, raw - raw.sum(-1, keepdims=True) / seen.sum(-1)[:, None], 0)
    return np.corrcoef(centred.reshape(len(rows), -1)) if len(rows) > 1 else np.ones((1, 1))


def eager_maps(folder: Path, photos: Path, name: str) -> list[list[Array]]:
    """Give the maps of each layer of each image, (window, head, query, key)."""
    model: Any = AutoModel.from_pretrained(folder / name, attn_implementation="eager").eval()
    every = [every_type.hooked_maps(model, one) for one in given(folder / name, photos)]
    return [[rows.double().numpy() for _, rows in maps] for maps in every]


def test_every_number_of_a_swin(folder: Path):
    table = attnprobe.census(folder / "swin", folder / "photos")
    heads = list(zip(table["layer"], table["head"], strict=True))
    assert heads == [(layer, head) for layer in range(4) for head in range((2, 2, 4, 4)[layer])]
    assert set(table["n"]) == {IMAGES}
    each: dict[str, list[list[Array]]] = {}
    for maps in eager_maps(folder, folder / "photos", "swin"):
        for layer, every in enumerate(maps):
            places, seen = windows(layer)
            hidden = (every < 1e-30).all(1)
            assert (hidden == ~seen).all(), "masks are not those that are written down here"
            measured = [measure(*one) for one in zip(every, places, seen, strict=True)]
            for name in measured[0]:
                mean = np.nanmean([one[name] for one in measured], 0)
                each.setdefault(name, [[] for _ in range(4)])[layer].append(mean)
    for name, layers in each.items():
        expected = np.concatenate([np.mean(one, 0) for one in layers])
        np.testing.assert_allclose(np.array(table[name], float), expected, atol=1e-5, err_msg=name)
        error = np.concatenate([np.std(one, 0, ddof=1) / IMAGES**0.5 for one in layers])
        np.testing.assert_allclose(np.array(table[f"{name}_se"], float), error, atol=1e-5, err_msg=name)


def test_logits_of_hidden_keys_do_not_count(folder: Path):
    table = attnprobe.mixing(folder / "swin", folder / "photos")
    expected = []
    for layer in range(4):
        _, seen = windows(layer)
        images = [maps[layer] for maps in eager_maps(folder, folder / "photos", "swin")]
        each = [np.mean([logits(*one) for one in zip(every, seen, strict=True)], 0) for every in images]
        expected += [1 - 1 / np.diag(np.linalg.inv(np.mean(each, 0)))]
    np.testing.assert_allclose(np.array(table["explained_by_others"]), np.concatenate(expected), atol=1e-4)


def test_a_head_planted_in_a_shifted_window(folder: Path, tmp_path: Path):
    """It looks to the left wherever something is there; behind a mask, nothing is."""
    model: Any = AutoModel.from_pretrained(folder / "swin")
    with torch.no_grad():
        attention = model.encoder.layers[0].blocks[1].attention
        biases = attention.relative_position_bias.relative_position_bias_table
        biases[:, 0] = 0
        # Row by row over the differences of places, query less key: here no rows and one column.
        biases[(SIDE - 1) * (2 * SIDE - 1) + SIDE, 0] = 40
        attention.q_proj.weight[:8] = attention.q_proj.bias[:8] = 0
    model.save_pretrained(tmp_path)
    AutoImageProcessor.from_pretrained(folder / "swin", backend="pil").save_pretrained(tmp_path)
    table = attnprobe.positional(tmp_path, folder / "photos")
    row = list(zip(table["layer"], table["head"], strict=True)).index((1, 0))
    assert table["previous"][row] == pytest.approx(1, abs=1e-6)
    assert (table["offset_rows"][row], table["offset_columns"][row]) == (0, -1)
    assert table["offset_share"][row] == pytest.approx(1, abs=1e-6)
    assert max(value for place, value in enumerate(table["previous"]) if place != row) < 0.9


def test_fewer_keys_than_queries(folder: Path):
    table = attnprobe.census(folder / "segformer", folder / "photos")
    model: Any = AutoModel.from_pretrained(folder / "segformer", attn_implementation="eager").eval()
    with torch.inference_mode():
        every = [
            model(**one, output_attentions=True).attentions
            for one in given(folder / "segformer", folder / "photos")
        ]
    expected = [
        float(torch.stack([torch.special.entr(maps[layer][0, head]).sum(-1).mean() for maps in every]).mean())
        for layer, heads in enumerate((1, 2, 2, 4))
        for head in range(heads)
    ]
    np.testing.assert_allclose(table["entropy"], expected, atol=1e-5)
    placed = [value is not None and np.isfinite(value) for value in table["previous"]]
    assert placed == [layer == 3 for layer in table["layer"]]


@pytest.mark.parametrize("name", ["swin", "swinv2"])
def test_each_image_has_its_own_head_mask(folder: Path, name: str):
    """A head that is off gives what zeroed columns of its output projection give, in its own image alone."""
    model: Any = AutoModel.from_pretrained(folder / name).eval()
    pixels = torch.cat([one["pixel_values"] for one in given(folder / name, folder / "photos")])[:2]
    with torch.inference_mode():
        whole = model(pixels)[0]
    way = Way.REGISTRY if name == "swin" else Way.TILES
    with gate_attention(model, way, present=[(0, 1), (0, 1), (0, 1, 2, 3), (0, 1, 2, 3)]) as gates:
        mask = torch.ones(2, 4, 4)
        mask[1, 1, 1] = 0
        gates.set(mask)
        with torch.inference_mode():
            gated = model(pixels)[0]
    attention = model.encoder.layers[0].blocks[1].attention
    output = attention.o_proj if name == "swin" else attention.output.dense
    with torch.no_grad():
        output.weight[:, 8:] = 0
        zeroed = model(pixels)[0]
    assert float((gated[0] - whole[0]).abs().max()) < 1e-5
    assert float((gated[1] - zeroed[1]).abs().max()) < 1e-5
    assert float((whole[1] - zeroed[1]).abs().max()) > 1e-2


def test_tables_of_separate_jobs_add_up(folder: Path, tmp_path: Path):
    """Rows are those of the heads that there are, also where only the record says so; and in bfloat16."""
    parts = []
    for number, names in enumerate((["0.png"], ["1.png", "2.png"])):
        (tmp_path / str(number)).mkdir()
        for name in names:
            (tmp_path / str(number) / name).write_bytes((folder / "photos" / name).read_bytes())
        parts.append(attnprobe.entropy(folder / "swin", tmp_path / str(number)))
    whole, merged = attnprobe.entropy(folder / "swin", folder / "photos"), attnprobe.merge(parts)
    rough = attnprobe.entropy(folder / "swin", folder / "photos", dtype="bfloat16")
    for table in (merged, whole, rough):
        assert list(table["head"]) == [0, 1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3]
    np.testing.assert_allclose(merged["entropy"], whole["entropy"], atol=1e-9)
    np.testing.assert_allclose(rough["entropy"], whole["entropy"], atol=0.05)


def test_heads_are_removed_by_zeros(folder: Path):
    """What ``bake`` writes is compared with gates there; here, with the whole model."""
    checkpoint = load_checkpoint(str(folder / "swin"), modality="image")
    keep = inspect(checkpoint).standing
    assert keep.sum(1).tolist() == [2, 2, 4, 4]
    keep[2, 3] = False
    weights = bake(checkpoint, keep).model.state_dict()
    changed = {
        name: (weights[name] != weight).any(0)
        for name, weight in checkpoint.model.state_dict().items()
        if not torch.equal(weights[name], weight)
    }
    assert [name.rpartition("layers.")[2] for name in changed] == ["1.blocks.0.attention.o_proj.weight"]
    (columns,) = changed.values()
    assert columns.nonzero().ravel().tolist() == [*range(24, 32)]


def test_what_is_refused(folder: Path, tmp_path: Path):
    """Each with one sentence, and what to do."""
    swin, photos = folder / "swin", folder / "photos"
    with pytest.raises(AttnprobeError, match="leave out all_pairs"):
        attnprobe.distance(swin, photos, all_pairs=True)
    with pytest.raises(AttnprobeError, match="measure each with census"):
        attnprobe.compare([swin, swin], photos)
    with pytest.raises(AttnprobeError, match="census measures them"):
        attnprobe.view(swin, next(photos.iterdir()))
    ViTImageProcessorPil(do_resize=False).save_pretrained(tmp_path)
    every_type.build("swin").save_pretrained(tmp_path)
    Image.new("RGB", (32, 32)).save(photos / "other.png")
    try:
        with pytest.raises(AttnprobeError, match=r"in preprocessor_config\.json"):
            attnprobe.entropy(tmp_path, photos)
    finally:
        (photos / "other.png").unlink()


class Noise:
    """Stands for a processor."""

    def __init__(self, *shape: int) -> None:
        self._shape = shape

    def noise(self, number: int) -> dict[str, torch.Tensor]:
        draw = torch.Generator().manual_seed(number)
        return {"pixel_values": torch.randn(1, *self._shape, generator=draw)}


def examined(height: int, width: int, **changes: Any) -> Any:
    model, noise = every_type.build("swin", image_size=(height, width), **changes), Noise(3, height, width)
    found = Checkpoint("swin", model, NoTokenizer("swin"), modality="image", processor=cast(Any, noise))
    return inspect(found).tilings


@pytest.mark.parametrize(("height", "width"), [(32, 64), (64, 32)])
def test_images_that_are_no_squares(height: int, width: int):
    """The mask of shifted windows hides what has come over a border: those of the last row and column."""
    plain, shifted, *_ = examined(height, width)
    assert plain.grid == shifted.grid == Grid(0, SIDE, SIDE)
    assert plain.mask is None
    rows, columns = height // 2 // SIDE, width // 2 // SIDE
    hiding = (~shifted.mask).any((1, 2)).view(rows, columns)
    expected = torch.zeros(rows, columns, dtype=torch.bool)
    expected[-1], expected[:, -1] = True, True
    assert torch.equal(hiding, expected)


def test_windows_that_hold_padding():
    with pytest.raises(UnsupportedModelError, match="256 patches do not fill 16 windows of 25"):
        examined(32, 32, window_size=5)


def test_a_mask_that_windows_do_not_explain(monkeypatch: pytest.MonkeyPatch):
    """Hidden keys are no keys that a head passes over; of which keys are hidden, nothing is guessed."""
    usual = modeling_swin.SwinLayer.get_attn_mask

    def hide_first(*arguments: Any, **options: Any) -> Any:
        mask = usual(*arguments, **options)
        if mask is not None:
            mask[:2, :, 5:9] = -100
        return mask

    monkeypatch.setattr(modeling_swin.SwinLayer, "get_attn_mask", hide_first)
    with pytest.raises(UnsupportedModelError, match="layer 1, masks hide other keys"):
        examined(32, 32)
