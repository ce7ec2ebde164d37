"""From files to pixels and samples; a broken file ends in one sentence."""

import struct
import zlib

import numpy as np
import pytest

from attnprobe.corpus.media import count_samples, read_image, read_image_size, read_sound
from attnprobe.errors import AttnprobeError

RATE = 16_000


def sentence(read, *arguments) -> str:
    """Give what is said where a file can't be read."""
    with pytest.raises(AttnprobeError) as caught:
        read(*arguments)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


class TestImages:
    @pytest.fixture(autouse=True)
    def image(self):
        return pytest.importorskip("PIL.Image")

    @pytest.fixture
    def pixels(self):
        return np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)

    def test_as_they_are(self, image, pixels, tmp_path):
        image.fromarray(pixels).save(path := tmp_path / "a.png")
        found = read_image(path)
        assert (found.dtype, found.shape) == (np.uint8, (5, 7, 3))
        assert (found == pixels).all()
        assert read_image_size(path) == (7, 5)

    @pytest.mark.parametrize(
        ("orientation", "turned"),
        [
            (3, lambda a: a[::-1, ::-1]),
            (5, lambda a: a.swapaxes(0, 1)),
            (6, lambda a: np.rot90(a, -1)),
        ],
    )
    def test_turned_as_the_camera_says(self, image, pixels, tmp_path, orientation, turned):
        exif = image.Exif()
        exif[0x0112] = orientation
        image.fromarray(pixels).save(path := tmp_path / "a.png", exif=exif)
        expected = turned(pixels)
        assert (read_image(path) == expected).all()
        assert read_image_size(path) == (expected.shape[1], expected.shape[0])

    def test_cut_short(self, image, pixels, tmp_path):
        image.fromarray(pixels).save(path := tmp_path / "a.png")
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

        def chunk(kind: bytes, data: bytes) -> bytes:
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
        found = read_sound(write(np.stack([left, right], 1), subtype="FLOAT"), RATE)
        np.testing.assert_allclose(found, (left + right) / 2, atol=1e-7)

    @pytest.mark.parametrize("rate", [11_025, 44_100])
    def test_a_sine_stays_a_sine(self, write, rate):
        time = np.arange(rate) / rate
        found = read_sound(write(0.5 * np.sin(2 * np.pi * 440 * time), rate, subtype="FLOAT"), RATE)
        assert len(found) == RATE
        assert found.dtype == np.float32
        inside = slice(500, -500)  # nothing is known beyond the ends
        expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
        np.testing.assert_allclose(found[inside], expected[inside], atol=2e-3)

    @pytest.mark.parametrize(("rate", "frames"), [(11_025, 999), (16_000, 1), (44_100, 999)])
    def test_the_length_is_known_beforehand(self, write, rate, frames):
        path = write(np.zeros(frames), rate)
        assert count_samples(path, 24_000) == len(read_sound(path, 24_000))

    @pytest.mark.parametrize("content", [b"", b"these are words", b"RIFF\x24\x00\x00\x00WAVEfmt ", b"fLaC"])
    def test_no_sound(self, tmp_path, content):
        (path := tmp_path / "a.wav").write_bytes(content)
        assert "a.wav is damaged" in sentence(read_sound, path, RATE)
        assert "a.wav is damaged" in sentence(count_samples, path, RATE)
