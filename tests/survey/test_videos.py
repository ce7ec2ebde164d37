"""Models of videos against their own eager maps, over frames that PyAV and their processors give."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import attnprobe
from attnprobe.errors import AttnprobeError

av: Any = pytest.importorskip("av")
pytest.importorskip("PIL")

FRAMES, LAYERS, HEADS = 4, 2, 4
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 32,
}
#: Counts of frames; the last video has fewer than are read.
COUNTS = {"walk/a.mp4": 9, "walk/b.mkv": 12, "run/c.avi": 8, "run/d.mp4": 3}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write videos of noise that moves, in folders of classes."""
    folder, draw = tmp_path_factory.mktemp("seen") / "videos", np.random.default_rng(0)
    for name, count in COUNTS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        still = draw.integers(0, 255, (6, 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
            for number in range(count):
                shown = np.roll(still, 5 * number, 1)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
            container.mux(stream.encode())
    return folder


def read_frames(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        every = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return [every[int(place * len(every) / FRAMES)] for place in range(FRAMES)]


def save(folder: Path, kind: str, config: Any, processor: Any) -> Path:
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).eval()
    for weight in model.parameters():
        weight.data.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def eye() -> Any:
    return transformers.VideoMAEImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )


def configure(**changes: Any) -> Any:
    sizes: dict[str, Any] = {"image_size": 32, "num_frames": FRAMES, "tubelet_size": 2, **SIZES, **changes}
    return transformers.VideoMAEConfig(**sizes)


@pytest.fixture(scope="module")
def videomae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model") / "videomae", "VideoMAEModel", configure(), eye())


def compute_columns(model: Any, inputs: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Compute entropy and confidence of each head, the means over queries and videos."""
    entropies, confidences = [], []
    for one in inputs:
        with torch.no_grad():
            maps = torch.cat(model(**one, output_attentions=True).attentions).double()
        entropies.append(torch.special.entr(maps).sum(-1).mean(-1))
        confidences.append(maps.amax(-1).mean(-1))
    return {
        "entropy": torch.stack(entropies).mean(0).ravel().numpy(),
        "confidence": torch.stack(confidences).mean(0).ravel().numpy(),
    }


class Told:
    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, name: str, total: int | None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def say(self, sentence: str) -> None:
        self.said.append(sentence)


@pytest.mark.parametrize("name", ["videomae", "vivit", "joint timesformer"])
def test_columns(videomae: Path, videos: Path, tmp_path: Path, name: str):
    told, folder, own = Told(), videomae, eye()
    if name == "vivit":
        config = transformers.VivitConfig(image_size=32, num_frames=FRAMES, tubelet_size=[2, 16, 16], **SIZES)
        own = transformers.VivitImageProcessor(
            size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}
        )
        folder = save(tmp_path / name, "VivitModel", config, own)
    if name == "joint timesformer":
        config = transformers.TimesformerConfig(
            image_size=32, num_frames=FRAMES, attention_type="joint_space_time", **SIZES
        )
        folder = save(tmp_path / name, "TimesformerModel", config, own)
    table = attnprobe.census(str(folder), videos, progress=told)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    inputs = []
    for one in COUNTS:  # frame by frame
        frames = [
            own([frame], return_tensors="np")["pixel_values"][0, 0] for frame in read_frames(videos / one)
        ]
        inputs.append({"pixel_values": torch.from_numpy(np.stack(frames))[None].float()})
    assert inputs[0]["pixel_values"].shape == (1, FRAMES, 3, 32, 32)
    for column, expected in compute_columns(model, inputs).items():
        np.testing.assert_allclose(table[column], expected, rtol=0, atol=1e-5)
    assert set(table["n"]) == {4}
    for column in ("previous", "self", "attention_distance"):
        assert np.isnan(table[column]).all()
    assert "4 frames of each video are read, evenly over its length." in told.said
    assert "its tokens lie in time and space, so that columns about places are empty." in told.said
    assert table.provenance["dataset"]["kind"] == "video"
    assert table.provenance["model"]["frames"] == FRAMES


@pytest.fixture(scope="module")
def timesformer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = transformers.TimesformerConfig(
        image_size=32, patch_size=8, num_frames=FRAMES, id2label={0: "run", 1: "walk"},
        label2id={"run": 0, "walk": 1}, **SIZES,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model") / "timesformer"
    return save(folder, "TimesformerForVideoClassification", config, eye())


SIDE = 4  # patches along one side of a frame
Array = Any


def compute_divided_maps(model: Any, path: Path) -> dict[tuple[str, int], Array]:
    """Compute softmax(q k / sqrt d) of what projections give: of each layer, (sequence, head, query, key)."""
    given: dict[tuple[str, int], Array] = {}

    def keep(place: tuple[str, int]) -> Any:
        def note(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
            sequences, tokens, _ = output.shape
            query, key, _ = output.double().reshape(sequences, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            given[place] = scores.softmax(-1).numpy()

        return note

    hooks = []
    for number, layer in enumerate(model.timesformer.encoder.layer):
        for kind, attention in (("time", layer.temporal_attention), ("space", layer.attention)):
            hooks.append(attention.attention.qkv.register_forward_hook(keep((kind, number))))
    with torch.no_grad():
        own = model(**eye()(read_frames(path), return_tensors="pt"), output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    for number, rows in enumerate(own):
        np.testing.assert_allclose(given["space", number], rows.numpy(), atol=1e-6)
    return given


def measure_divided(kind: str, rows: Array) -> dict[str, Array]:
    """Measure maps by the definitions: over queries, then over the sequences of a video; (head,)."""
    if kind == "time":
        places = [(0, frame) for frame in range(FRAMES)]
    else:
        places = [None, *((row, column) for row in range(SIDE) for column in range(SIDE))]
    found = {"entropy": -(rows * np.log(rows)).sum(-1).mean((0, 2)), "confidence": rows.max(-1).mean((0, 2))}
    steps = {"previous": (0, -1), "self": (0, 0), "next": (0, 1), "above": (-1, 0), "below": (1, 0)}
    for name, (down, right) in steps.items():
        pairs = [
            (query, key)
            for query, one in enumerate(places)
            for key, other in enumerate(places)
            if one and other and (other[0] - one[0], other[1] - one[1]) == (down, right)
        ]
        mass = np.mean([rows[:, :, query, key] for query, key in pairs], 0).mean(0) if pairs else np.nan
        found[name] = np.broadcast_to(mass, HEADS)
    if kind == "space":
        found["first"] = rows[..., 0].mean((0, 2))
    else:
        apart = np.abs(np.arange(FRAMES) - np.arange(FRAMES)[:, None])
        found["attention_distance"] = (rows * apart).sum(-1).mean((0, 2))
    return found


def test_time_and_space_apart(timesformer: Path, videos: Path):
    """Rows are named by the axis; every number is that of maps that are computed by hand."""
    told = Told()
    table = attnprobe.census(str(timesformer), videos, progress=told)
    named = list(zip(table["attention"], table["layer"], table["head"], strict=True))
    assert named == [(k, n, h) for k in ("time", "space") for n in range(LAYERS) for h in range(HEADS)]
    assert not any("columns about places" in sentence for sentence in told.said)
    model = transformers.TimesformerForVideoClassification.from_pretrained(timesformer).eval()
    each = [compute_divided_maps(model, videos / one) for one in COUNTS]
    assert each[0]["time", 0].shape == (SIDE**2, HEADS, FRAMES, FRAMES)
    assert each[0]["space", 0].shape == (FRAMES, HEADS, SIDE**2 + 1, SIDE**2 + 1)
    for (kind, number), _ in each[0].items():
        measured = [measure_divided(kind, one[kind, number]) for one in each]
        rows = [place for place, (k, n, _) in enumerate(named) if (k, n) == (kind, number)]
        for name in measured[0]:
            every = np.stack([one[name] for one in measured])
            found = np.array(table[name], float)[rows]
            np.testing.assert_allclose(found, every.mean(0), atol=1e-5, err_msg=f"{name} in {kind}")
            errors = np.array(table[f"{name}_se"], float)[rows]
            np.testing.assert_allclose(errors, every.std(0, ddof=1) / 2, atol=1e-5, err_msg=name)


def test_a_head_that_looks_at_one_frame(timesformer: Path, videos: Path, tmp_path: Path):
    """A planted head of time finds the frame before by the embeddings of time."""
    model: Any = transformers.TimesformerForVideoClassification.from_pretrained(timesformer)
    layer, head, width = model.timesformer.encoder.layer[0], 2, SIZES["hidden_size"] // HEADS
    with torch.no_grad():
        model.timesformer.embeddings.time_embeddings.zero_()
        for frame in range(FRAMES):
            model.timesformer.embeddings.time_embeddings[0, frame, frame] = 50.0
        layer.temporal_layernorm.weight.fill_(1)
        layer.temporal_layernorm.bias.zero_()
        qkv = layer.temporal_attention.attention.qkv
        for part in (0, 1):  # queries of frame t, and keys of frame t - 1
            rows = slice(part * 32 + head * width, part * 32 + (head + 1) * width)
            qkv.weight[rows], qkv.bias[rows] = 0, 0
            for frame in range(FRAMES):
                qkv.weight[part * 32 + head * width + frame, (frame + (part == 0)) % FRAMES] = 4.0
    model.save_pretrained(tmp_path / "planted")
    eye().save_pretrained(tmp_path / "planted")
    table = attnprobe.positional(str(tmp_path / "planted"), videos)
    assert table["attention"][head] == "time"
    assert table["previous"][head] > 0.95
    assert max(np.delete(np.array(table["previous"], float), head)) < 0.7


def test_heads_of_time_and_of_space_are_masked(timesformer: Path, videos: Path):
    """The score without a head is that of a model whose output projection does not read it."""
    table = attnprobe.ablate(str(timesformer), videos, metric="loss")
    width = SIZES["hidden_size"] // HEADS
    for kind, number, head in (("time", 0, 1), ("space", 1, 3)):
        model: Any = transformers.TimesformerForVideoClassification.from_pretrained(timesformer).eval()
        layer = model.timesformer.encoder.layer[number]
        attention = layer.temporal_attention if kind == "time" else layer.attention
        losses = []
        with torch.no_grad():
            attention.output.dense.weight[:, head * width : (head + 1) * width] = 0
            for name in COUNTS:
                logits = model(**eye()(read_frames(videos / name), return_tensors="pt")).logits
                right = torch.tensor([int(name.startswith("walk"))])
                losses.append(torch.nn.functional.cross_entropy(logits, right).item())
        named = zip(table["attention"], table["layer"], table["head"], strict=True)
        row = [*named].index((kind, number, head))
        assert table["score"][row] == pytest.approx(np.mean(losses), abs=1e-5)


def test_folders_of_frames(videomae: Path, videos: Path, tmp_path: Path):
    """Frames that were written one by one give what the video of them gives."""
    from PIL import Image

    for name in COUNTS:
        folder = tmp_path / "frames" / name.partition(".")[0]
        folder.mkdir(parents=True)
        for number, frame in enumerate(read_frames(videos / name)):
            Image.fromarray(frame).save(folder / f"{number}.png")
    expected = attnprobe.entropy(str(videomae), videos)
    table = attnprobe.entropy(str(videomae), tmp_path / "frames")
    np.testing.assert_array_equal(table["entropy"], expected["entropy"])
    fewer = attnprobe.entropy(str(videomae), tmp_path / "frames", limit=2)
    assert set(fewer["n"]) == {2}  # videos, not frames


@pytest.mark.parametrize("frames", [False, True])
def test_a_task(videos: Path, tmp_path: Path, frames: bool):
    from PIL import Image

    labels = {"id2label": {0: "run", 1: "walk"}, "label2id": {"run": 0, "walk": 1}}
    folder = save(tmp_path / "model", "VideoMAEForVideoClassification", configure(**labels), eye())
    data = videos
    if frames:
        data = tmp_path / "frames"
        for name in COUNTS:
            (data / name).mkdir(parents=True)
            for number, frame in enumerate(read_frames(videos / name)):
                Image.fromarray(frame).save(data / name / f"{number}.png")
    table = attnprobe.ablate(str(folder), data, metric="loss")
    assert set(table["objective"]) == {"classification"}
    assert set(table["n"]) == {4}
    model: Any = transformers.VideoMAEForVideoClassification.from_pretrained(folder)
    losses = []
    for name in COUNTS:
        logits = model(**eye()(read_frames(videos / name), return_tensors="pt")).logits
        right = torch.tensor([int(name.startswith("walk"))])
        losses.append(torch.nn.functional.cross_entropy(logits, right).item())
    assert table["baseline"][0] == pytest.approx(np.mean(losses), abs=1e-5)


def test_refusals(videomae: Path, videos: Path, media_model: Any, tmp_path: Path):
    with pytest.raises(AttnprobeError, match=r"vit reads images; give a folder of images with texts\."):
        attnprobe.entropy(str(media_model("vit")), videos)
    with pytest.raises(AttnprobeError, match="videomae reads videos; give a folder of videos"):
        attnprobe.entropy(str(videomae), ["a text"])
    with pytest.raises(AttnprobeError, match="is a video, which is not shown"):
        attnprobe.view(str(videomae), videos / "walk" / "a.mp4")
    config = transformers.TimesformerConfig(
        image_size=32, num_frames=FRAMES, attention_type="space_only", **SIZES
    )
    folder = save(tmp_path / "timesformer", "TimesformerModel", config, eye())
    with pytest.raises(AttnprobeError, match="does not attend from tokens to tokens"):
        attnprobe.entropy(str(folder), videos)


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="torchvision is there")
def test_a_processor_that_needs_torchvision(tmp_path: Path, videos: Path):
    folder = save(tmp_path / "other", "VideoMAEModel", configure(), eye())
    (folder / "preprocessor_config.json").unlink()
    (folder / "video_preprocessor_config.json").write_text(
        '{"video_processor_type": "VideoMAEVideoProcessor"}'
    )
    with pytest.raises(AttnprobeError, match=r"videos of other needs torchvision: pip install torchvision\."):
        attnprobe.entropy(str(folder), videos)


@pytest.mark.parametrize("name", ["vivit", "vjepa2"])
def test_processors_of_videos(tmp_path: Path, videos: Path, name: str):
    """Those that need torchvision; V-JEPA 2 reads with its encoder."""
    pytest.importorskip("torchvision")
    found: Any = transformers
    if name == "vivit":
        config = found.VivitConfig(image_size=32, num_frames=FRAMES, tubelet_size=[2, 16, 16], **SIZES)
        own = found.VivitVideoProcessor(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32})
        folder, more = save(tmp_path / name, "VivitModel", config, own), {}
    else:
        config = found.VJEPA2Config(
            crop_size=32, frames_per_clip=FRAMES, tubelet_size=2, hidden_size=24, num_hidden_layers=2,
            num_attention_heads=2, pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1,
            pred_num_mask_tokens=2,
        )  # fmt: skip
        own = found.VJEPA2VideoProcessor(crop_size=32)
        folder, more = save(tmp_path / name, "VJEPA2Model", config, own), {"skip_predictor": True}
    model = found.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = [
        {**own([read_frames(videos / one)], return_tensors="pt", do_sample_frames=False), **more}
        for one in COUNTS
    ]
    table = attnprobe.entropy(str(folder), videos)
    for column, expected in compute_columns(model, inputs).items():
        np.testing.assert_allclose(table[column], expected, rtol=0, atol=1e-5)
