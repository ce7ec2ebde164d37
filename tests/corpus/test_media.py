"""Images and sound: files become pixels and samples, folders are listed, images stand beside texts."""

import base64
import json
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import seeing_models
from PIL import Image

from attnprobe.corpus.media import (
    IMAGE,
    SOUND,
    MediaFolder,
    Picture,
    count_samples,
    read_image,
    read_image_size,
    read_sound,
)
from attnprobe.corpus.open import open_anything
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError

RATE = 16_000


def sentence(read, *arguments):
    """Give what is said where a file can't be read."""
    with pytest.raises(AttnprobeError) as caught:
        read(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


class TestImages:
    @pytest.fixture
    def pixels(self):
        return np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)

    def test_as_they_are(self, pixels, tmp_path):
        Image.fromarray(pixels).save(path := tmp_path / "a.png")
        read_back = read_image(path)
        assert (read_back.dtype, read_back.shape) == (np.uint8, (5, 7, 3))
        assert (read_back == pixels).all()
        assert read_image_size(path) == (7, 5)

    @pytest.mark.parametrize(
        ("orientation", "turned"),
        [(3, lambda a: a[::-1, ::-1]), (5, lambda a: a.swapaxes(0, 1)), (6, lambda a: np.rot90(a, -1))],
    )
    def test_turned_as_the_camera_says(self, pixels, tmp_path, orientation, turned):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(pixels).save(path := tmp_path / "a.png", exif=exif)
        expected = turned(pixels)
        assert (read_image(path) == expected).all()
        assert read_image_size(path) == (expected.shape[1], expected.shape[0])

    def test_cut_short(self, pixels, tmp_path):
        Image.fromarray(pixels).save(path := tmp_path / "a.png")
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        assert "a.png is damaged" in sentence(read_image, path)

    @pytest.mark.parametrize("content", [b"", b"these are words", b"\x89PNG\r\n\x1a\n", b"GIF89a"])
    def test_no_image(self, tmp_path, content):
        (path := tmp_path / "a.png").write_bytes(content)
        assert "a.png is damaged" in sentence(read_image, path)
        assert "a.png is damaged" in sentence(read_image_size, path)

    @pytest.mark.filterwarnings("default")  # Pillow warns of the smaller one, which is to be an error anyway
    @pytest.mark.parametrize("side", [10_000, 60_000])
    def test_larger_than_any_honest_one(self, tmp_path, side):
        """A few bytes that claim to be gigabytes: told before anything is unpacked."""

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
        body = chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
        (path := tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + body)
        assert "too many pixels" in sentence(read_image, path)
        assert "too many pixels" in sentence(read_image_size, path)


class TestSound:
    @pytest.fixture(autouse=True)
    def soundfile(self):
        return pytest.importorskip("soundfile")

    @pytest.fixture
    def write(self, soundfile, tmp_path):
        def write(samples, rate=RATE, name="a.wav", **options):
            soundfile.write(tmp_path / name, samples, rate, **options)
            return tmp_path / name

        return write

    def test_the_mean_of_channels(self, write):
        left, right = np.random.default_rng(0).uniform(-1, 1, (2, 100)).astype(np.float32)
        samples = read_sound(write(np.stack([left, right], 1), subtype="FLOAT"), RATE)
        np.testing.assert_allclose(samples, (left + right) / 2, atol=1e-7)

    @pytest.mark.parametrize("rate", [11_025, 44_100])
    def test_a_sine_stays_a_sine(self, write, rate):
        time = np.arange(rate) / rate
        samples = read_sound(write(0.5 * np.sin(2 * np.pi * 440 * time), rate, subtype="FLOAT"), RATE)
        assert len(samples) == RATE
        assert samples.dtype == np.float32
        inside = slice(500, -500)  # nothing is known beyond the ends
        expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
        np.testing.assert_allclose(samples[inside], expected[inside], atol=2e-3)

    @pytest.mark.parametrize(("rate", "frames"), [(11_025, 999), (16_000, 1), (44_100, 999)])
    def test_the_length_is_known_beforehand(self, write, rate, frames):
        path = write(np.zeros(frames), rate)
        assert count_samples(path, 24_000) == len(read_sound(path, 24_000))

    @pytest.mark.parametrize("content", [b"", b"these are words", b"RIFF\x24\x00\x00\x00WAVEfmt ", b"fLaC"])
    def test_no_sound(self, tmp_path, content):
        (path := tmp_path / "a.wav").write_bytes(content)
        assert "a.wav is damaged" in sentence(read_sound, path, RATE)
        assert "a.wav is damaged" in sentence(count_samples, path, RATE)


@pytest.fixture
def folder(tmp_path):
    """Make a folder of files whose content nobody looks at."""

    def make(*names, **tables):
        root = tmp_path / "data"
        root.mkdir(exist_ok=True)
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
        for name, content in tables.items():
            (root / f"metadata.{name}").write_text(content, encoding="utf-8")
        return root

    return make


def names(media, root):
    return [item.path.relative_to(root).as_posix() for item in media.items]


def labels(media):
    return [item.label for item in media.items]


class TestListing:
    def test_in_the_order_of_names_whatever_was_written_first(self, folder):
        root = folder("c.png", "a.JPG", "sub/d.webp", "b.tiff", "sub/deep/e.gif")
        media = MediaFolder.open(root)
        assert names(media, root) == ["a.JPG", "b.tiff", "c.png", "sub/d.webp", "sub/deep/e.gif"]
        assert media.kind == IMAGE

    def test_neither_or_both(self, folder):
        assert "without text, images or sound" in sentence(
            MediaFolder.open, folder("text.txt", ".hidden.png")
        )
        assert "images and sound" in sentence(MediaFolder.open, folder("a.png", "sub/b.wav"))

    def test_a_single_file(self, folder):
        path = folder("a.png", "b.wav") / "b.wav"
        media = MediaFolder.open(path)
        assert (media.kind, [item.path for item in media.items]) == (SOUND, [path])


class TestLabels:
    def test_by_folder(self, folder):
        media = MediaFolder.open(folder("cat/a.png", "dog/b.png", "cat/more/c.png"))
        assert labels(media) == ["cat", "cat", "dog"]

    def test_a_table(self, folder):
        csv = 'label,file_name\ncat,a.png\n,b.png\n"a, b",in/c.png\nlost,gone.png\n'
        media = MediaFolder.open(folder("a.png", "b.png", "in/c.png", "d.png", csv=csv))
        assert labels(media) == ["cat", None, None, "a, b"]
        assert [item.label for item in media.labelled.items] == ["cat", "a, b"]

    def test_a_table_goes_before_folders(self, folder):
        media = MediaFolder.open(folder("cat/a.png", "cat/b.png", csv="file_name,label\ncat/a.png,dog\n"))
        assert labels(media) == ["dog", None]

    def test_a_table_without_labels(self, folder):
        assert labels(MediaFolder.open(folder("a.png", csv="file_name,width\na.png,3\n"))) == [None]

    def test_json_lines(self, folder):
        rows = [{"file_name": "a.wav", "text": "hi", "n": 1}, {"file_name": "b.wav", "text": None}]
        root = folder("a.wav", "b.wav", jsonl="\n".join(map(json.dumps, rows)) + "\n")
        assert labels(MediaFolder.open(root)) == ["hi", None]
        assert labels(MediaFolder.open(root, "n")) == [1, None]

    def test_a_column_by_name(self, folder):
        root = folder("a.wav", csv="file_name,label,mood\na.wav,no,yes\n")
        assert labels(MediaFolder.open(root, "mood")) == ["yes"]
        assert "no column 'colour'; its columns are file_name, label, mood" in sentence(
            MediaFolder.open, root, "colour"
        )

    @pytest.mark.parametrize("line", ["{", "[]", '{"label": 1}', "[" * 100_000])
    def test_a_broken_table_of_json(self, folder, line):
        good = '{"file_name": "a.png", "label": "x"}\n'
        assert "metadata.jsonl" in sentence(MediaFolder.open, folder("a.png", jsonl=good + line + "\n"))
        assert "metadata.jsonl" in sentence(MediaFolder.open, folder("a.png", jsonl=line + "\n"))


class TestDescription:
    def test_it_changes_with_content_names_and_labels(self, folder):
        seen = [MediaFolder.open(root := folder("cat/a.png", "cat/b.png")).described["sha256"]]
        assert MediaFolder.open(root).described["sha256"] == seen[0]
        (root / "cat" / "b.png").write_bytes(b"cat/b.pnG")
        seen.append(MediaFolder.open(root).described["sha256"])
        (root / "cat" / "b.png").rename(root / "cat" / "c.png")
        seen.append(MediaFolder.open(root).described["sha256"])
        (root / "cat").rename(root / "dog")
        seen.append(MediaFolder.open(root).described["sha256"])
        assert len(set(seen)) == len(seen)

    def test_a_file_that_went_away(self, folder):
        media = MediaFolder.open(root := folder("a.png"))
        (root / "a.png").unlink()
        with pytest.raises(AttnprobeError, match=r"a\.png can't be read: No such file"):
            _ = media.described


@pytest.fixture
def pairs(tmp_path):
    return seeing_models.draw_pairs(tmp_path / "seen", 4)


def read_pairs(path, *, sees=True, **options):
    return list(open_anything(Source(str(path), sees=lambda: sees, **options)).documents)


def write_lines(folder, cells, texts, column="image"):
    rows = [json.dumps({column: cell, "text": text}) for cell, text in zip(cells, texts, strict=True)]
    (folder / "pairs.jsonl").write_text("\n".join(rows))
    return folder / "pairs.jsonl"


def encode(path):
    return base64.b64encode(path.read_bytes()).decode()


#: How the images may be written, each from a path to a cell of JSON.
CELLS: dict[str, Callable[[Path], Any]] = {
    "relative": lambda path: f"seen/{path.name}",
    "absolute": str,
    "base64": encode,
    "data URL": lambda path: f"data:image/png;base64,{encode(path)}",
    "list": lambda path: [f"seen/{path.name}"],
    "hub": lambda path: {"path": f"seen/{path.name}", "bytes": None},
}


@pytest.mark.parametrize("form", CELLS)
def test_lines(form, pairs, tmp_path):
    path = write_lines(tmp_path, [CELLS[form](one) for one, _ in pairs], [text for _, text in pairs])
    documents = read_pairs(path)
    assert [document.text for document in documents] == [text for _, text in pairs]
    for document, (file, _) in zip(documents, pairs, strict=True):
        assert document.image is not None
        assert np.array_equal(document.image.read(), read_image(file))
    assert len({document.digest for document in documents}) == len(documents)
    assert not any(document.image for document in read_pairs(path, sees=False))
    assert not any(document.image for document in read_pairs(path, image_column="none"))


@pytest.mark.parametrize("form", ["csv", "hub", "bytes", "metadata"])
def test_other_forms(form, pairs, tmp_path):
    """A csv, parquet as the hub writes it and with bare bytes, the table of a folder."""
    texts, options = [text for _, text in pairs], {}
    path = tmp_path / f"pairs.{'csv' if form == 'csv' else 'parquet'}"
    if form == "csv":
        frame = pandas.DataFrame({"text": texts, "image_path": [f"seen/{one.name}" for one, _ in pairs]})
        frame.to_csv(path, index=False)
    elif form in {"hub", "bytes"}:
        file = [one.read_bytes() for one, _ in pairs]
        cells = [{"bytes": one, "path": "x.png"} for one in file] if form == "hub" else file
        pandas.DataFrame({"text": texts, "image": cells}).to_parquet(path)
    else:
        path = tmp_path / "seen" / "metadata.jsonl"
        options = {"text_column": "caption"}
        rows = [json.dumps({"file_name": one.name, "caption": text}) for one, text in pairs]
        path.write_text("\n".join(rows))
    documents = read_pairs(path, **options)
    assert [document.text for document in documents] == texts
    for document, (file, _) in zip(documents, pairs, strict=True):
        assert document.image is not None
        assert np.array_equal(document.image.read(), read_image(file))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("https://somewhere/a.png", "line 1 of .* names an image on the web; download it"),
        (["a.png", "b.png"], "line 1 of .* has 2 images; one is read with a text"),
        (7, "line 1 of .* has int for an image"),
        ({"bytes": [1, 2]}, "line 1 of .* has list for an image"),
        ("data:image/png;base64,@@", "line 1 of .* has an image in broken base64"),
        ("nowhere.png", r"There is no image .*nowhere\.png \(line 1 of .*\)"),
        ("/dev/zero", "There is no image /dev/zero"),
        ("\x1b[2J.png", r"There is no image '.*\\x1b\[2J\.png' \(line 1"),
    ],
)
def test_refused(cell, says, tmp_path):
    path = write_lines(tmp_path, [cell], ["a"], "shown")
    with pytest.raises(AttnprobeError, match=says):
        [document.image.read() for document in read_pairs(path, image_column="shown") if document.image]


def test_a_file_larger_than_any_image_is_not_read(pairs, monkeypatch):
    monkeypatch.setattr("attnprobe.corpus.media._LARGEST", 99)
    with pytest.raises(AttnprobeError, match="has more than"):
        Picture("row 1", pairs[0][0]).read()


def test_a_program_ends_in_one_sentence():
    held = BytesIO()
    Image.new("L", (4, 4)).save(held, "EPS")
    with pytest.raises(AttnprobeError, match="EPS is a program that draws"):
        Picture("row 1", held=held.getvalue()).read()
