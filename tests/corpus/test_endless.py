"""Files that never end, or unpack to far more than they are."""

import bz2
import gzip
import io
import lzma
import random
from pathlib import Path

import pyarrow
import pytest

from attnprobe.corpus import streams as packing
from attnprobe.corpus.open import read_documents
from attnprobe.corpus.source import Source
from attnprobe.corpus.streams import decode_lines
from attnprobe.errors import AttnprobeError

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: pyarrow.Codec("zstd").compress(raw).to_pybytes(),
}


class Endless(io.RawIOBase):
    """A line that never ends; counts what was read of it."""

    size = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        buffer[:] = b"a" * len(buffer)
        self.size += len(buffer)
        return len(buffer)


def test_a_line_that_never_ends_is_given_up():
    endless = Endless()
    with pytest.raises(AttnprobeError, match=r"line 1 of x is longer than 1 MiB.*never ends"):
        next(decode_lines(io.BufferedReader(endless), "x", longest=1 << 20))
    assert endless.size < 1 << 21


@pytest.mark.parametrize("end", [b"\n", b""])
def test_the_longest_line_is_read(end):
    line = b"a" * (100 - len(end)) + end
    assert list(decode_lines(io.BytesIO(b"b\n" + line), "x", longest=100)) == ["b\n", line.decode()]
    with pytest.raises(AttnprobeError, match="line 2 of x"):
        list(decode_lines(io.BytesIO(b"b\n" + b"a" + line), "x", longest=100))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of Unix")
def test_a_device_that_never_ends():
    with pytest.raises(AttnprobeError, match="line 1 of /dev/zero is longer than 64 MiB"):
        next(read_documents(Source("/dev/zero")))


@pytest.mark.parametrize(
    "name", ["bomb.txt.gz", "bomb.parquet.gz", "bomb.txt.bz2", "bomb.csv.xz", "bomb.txt.zst"]
)
def test_what_unpacks_beyond_all_proportion_is_given_up(tmp_path, monkeypatch, name):
    monkeypatch.setattr(packing, "FREELY", 1 << 16)
    path = tmp_path / name
    path.write_bytes(PACK[path.suffix](b"\n" * (1 << 21)))
    with pytest.raises(AttnprobeError, match=r"unpacks to more than 200 times its size.*unpack it"):
        list(read_documents(Source(str(path))))


def test_text_is_unpacked_whatever_its_size(tmp_path, monkeypatch):
    """Even such as a program writes, with few words."""
    monkeypatch.setattr(packing, "FREELY", 1 << 10)
    words = random.Random(0)
    lines = [" ".join(words.choices(["the", "a", "dog"], k=9)) for _ in range(5_000)]
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert [document.text for document in read_documents(Source(str(path)))] == lines
