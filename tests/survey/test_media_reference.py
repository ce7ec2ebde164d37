"""The whole census of images and sound against an independent computation, file by file.

Each file goes alone through transformers' own processor and the eager model; every number is then computed
from the definitions in ``by_definition``.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import every_type
import numpy as np
import pytest
import torch
from by_definition import Array, Heard, Rarity, Sample, Sentence, largest_difference, reference
from census_differences import differences
from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoModel, AutoTokenizer

import attnprobe
from attnprobe.table.table import HeadTable

TOLERANCE = 1e-5
#: Where the patches of each type are, by the papers: the first one, rows, columns.
GRIDS = {
    "vit": (1, 4, 4),
    "deit": (2, 4, 4),
    "dinov2_with_registers": (5, 4, 4),
    "yolos": (1, 4, 4),
    "siglip_vision_model": (0, 4, 4),
    "clip": (1, 4, 4),
    "audio-spectrogram-transformer": (2, 2, 8),  # bands by stretches of time
}
SEEING = ["dinov2", *(name for name in GRIDS if name != "audio-spectrogram-transformer")]
HEARING = ["wav2vec2", "audio-spectrogram-transformer", "whisper", "wavlm"]


class Unnamed(Sentence):
    """Tokens that have no names: those outside of the grid are special, the first of them if it leads."""

    def __init__(self, length: int, grid: tuple[int, int, int] | None) -> None:
        self.names = [""] * length
        start, rows, columns = grid or (0, 1, length)
        inside = [start <= place < start + rows * columns for place in range(length)]
        self.special = ~np.array(inside)
        self.first = self.special & (np.arange(length) == 0)
        self.separator = self.special & ~self.first
        self.punctuation, self.other = np.zeros(length, bool), np.array(inside)


def prepared(folder: Path, path: Path) -> dict[str, torch.Tensor]:
    """Give a file to the processor of transformers, as its documentation shows."""
    if path.suffix == ".png":
        from PIL import Image

        processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        return dict(processor(images=Image.open(path), return_tensors="pt"))
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32")
    processor = AutoFeatureExtractor.from_pretrained(folder)
    return dict(processor(samples, sampling_rate=rate, return_tensors="pt"))


def maps_of(maps: Any) -> Array:
    return torch.cat(list(maps)).double().numpy()


def listen(folder: Path, files: Path) -> Iterator[list[Heard]]:
    """Run every file alone through the eager model; a decoder reads what is said in it."""
    model: Any = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    name = folder.name
    part = model.vision_model if name == "clip" else model
    for path in sorted(path for path in files.iterdir() if path.suffix != ".csv"):
        given = prepared(folder, path)
        if name == "whisper" and (files / "metadata.csv").exists():
            yield from transcribed(model, folder, given, files / "metadata.csv", path.name)
            continue
        if name == "wavlm":
            maps = maps_of(every_type.maps_of_every_head(model, given))
        else:
            part = model.get_encoder() if name == "whisper" else part
            with torch.inference_mode():
                maps = maps_of(part(**given, output_attentions=True).attentions)
        grid = GRIDS.get(name)
        if name == "dinov2":  # takes every image as it is, without what is left of a patch at its borders
            height, width = given["pixel_values"].shape[-2:]
            grid = (1, height // 8, width // 8)
        tokens = Unnamed(maps.shape[-1], grid)
        yield [Heard("encoder", tokens, tokens, maps, grid)]


def transcribed(
    model: Any, folder: Path, given: dict[str, torch.Tensor], table: Path, name: str
) -> Iterator[list[Heard]]:
    """Let a decoder read what the table says of a file: nothing at all where it says nothing."""
    with table.open() as lines:
        transcripts = {row["file_name"]: row["text"] for row in csv.DictReader(lines)}
    if name not in transcripts:
        return
    tokenizer = AutoTokenizer.from_pretrained(folder)
    read = [
        model.config.decoder_start_token_id,
        *tokenizer(transcripts[name], add_special_tokens=False)["input_ids"],
    ]
    with torch.inference_mode():
        output = model(**given, decoder_input_ids=torch.tensor([read]), output_attentions=True)
    target = Sentence(tokenizer.convert_ids_to_tokens(read), leads=True, bytelevel=False)
    encoded = maps_of(output.encoder_attentions)
    source = Unnamed(encoded.shape[-1], None)
    yield [
        Heard("encoder", source, source, encoded),
        Heard("decoder", target, target, maps_of(output.decoder_attentions)),
        Heard("cross", target, source, maps_of(output.cross_attentions)),
    ]


@dataclass
class Case:
    """A model asked both ways about the same files."""

    expected: dict[str, Sample]
    table: HeadTable
    kinds: list[str]  # of every layer
    files: int

    @property
    def differences(self) -> dict[str, float]:
        return differences(self.expected, self.table, self.files)


@pytest.fixture(scope="module")
def case(media_model: Callable[[str], Path], photos: Path, clips: Path, speech: Path) -> Callable[..., Case]:
    """Ask a model both ways; every answer is kept for the tests that follow."""

    @cache
    def heard(name: str, files: Path) -> list[list[Heard]]:
        return list(listen(media_model(name), files))

    @cache
    def ask(name: str, *, content_only: bool, with_text: bool = True) -> Case:
        files = photos if name in SEEING else speech if name == "whisper" and with_text else clips
        files_heard = heard(name, files)
        # Only what a decoder reads has types that may be rare.
        lines = [kind.queries.names for file in files_heard for kind in file if kind.kind == "decoder"]
        vocabulary = AutoTokenizer.from_pretrained(media_model(name)).get_vocab() if lines else {}
        expected = reference(files_heard, Rarity.of(lines, vocabulary, {}), content_only=content_only)
        table = attnprobe.census(media_model(name), files, content_only=content_only)
        return Case(
            expected, table, [kind.kind for kind in files_heard[0] for _ in kind.maps], len(files_heard)
        )

    return ask


#: Tried every time; the others are slow ones.
USUAL = {"dinov2", "vit", "audio-spectrogram-transformer", "whisper"}


@pytest.mark.parametrize("content_only", [False, True], ids=["plain", "content-only"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in USUAL else pytest.mark.slow) for name in (*SEEING, *HEARING)],
)
class TestReference:
    """Every column within 1e-5."""

    def test_census(self, case: Callable[..., Case], name: str, content_only: bool):
        result = case(name, content_only=content_only)
        wrong = {column: off for column, off in result.differences.items() if not off <= TOLERANCE}
        assert not wrong
        assert (result.table["n"] == result.files).all()
        known = {"model", "dataset", "layer", "head", "n", *result.differences}
        assert set(result.table.data) == known | ({"attention"} if name == "whisper" else set())
        heads = result.expected["entropy"].mean.shape[1]
        numbers = [result.kinds[:layer].count(kind) for layer, kind in enumerate(result.kinds)]
        assert result.table["layer"].tolist() == [number for number in numbers for _ in range(heads)]
        assert result.table["head"].tolist() == [*range(heads)] * len(numbers)
        if name == "whisper":
            assert result.table["attention"].tolist() == [kind for kind in result.kinds for _ in range(heads)]


@pytest.mark.parametrize("name", ["vit", "whisper"])
def test_batches_change_nothing(media_model: Callable[[str], Path], photos: Path, speech: Path, name: str):
    files = {"vit": photos, "whisper": speech}[name]
    whole, single, few = (
        attnprobe.census(media_model(name), files, batch_tokens=tokens) for tokens in (None, 1, 100)
    )
    for column in [column.name for column in whole.columns if column.role in {"measure", "error"}]:
        assert largest_difference(single[column], whole[column]) <= 2e-6
        assert largest_difference(few[column], whole[column]) <= 2e-6


def test_layers_of_other_tokens_are_read_without_places(media_model: Callable[[str], Path], photos: Path):
    """The layers of a pyramid attend to fewer keys than queries, with other numbers of heads."""
    folder = media_model("segformer")
    table = attnprobe.census(folder, photos)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    files = sorted(photos.iterdir())
    with torch.inference_mode():
        each = [model(**prepared(folder, path), output_attentions=True).attentions for path in files]
    layers = [torch.cat(maps).double() for maps in zip(*each, strict=True)]
    assert len({maps.shape[2:] for maps in layers}) > 1
    entropy = [-(maps * maps.clamp_min(1e-30).log()).sum(3).mean((0, 2)) for maps in layers]
    confidence = [maps.amax(3).mean((0, 2)) for maps in layers]
    assert table["entropy"].tolist() == pytest.approx(torch.cat(entropy).tolist(), abs=TOLERANCE)
    assert table["confidence"].tolist() == pytest.approx(torch.cat(confidence).tolist(), abs=TOLERANCE)
    for column in ("previous", "next", "self", "attention_distance", "offset_share"):
        assert np.isnan(table[column].astype(float)).all()
    assert "above" not in table.data
    assert any("differ from layer to layer" in one for one in table.provenance["architecture"]["warnings"])
