"""Videos: frames against PyAV by itself, folders of frames, and files of strangers."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnprobe.corpus.sources import media as video
from attnprobe.corpus.sources.media import Item, MediaFolder
from attnprobe.corpus.sources.opening import open_anything
from attnprobe.corpus.sources.text import Source
from attnprobe.errors import AttnprobeError

av: Any = pytest.importorskip("av")
image: Any = pytest.importorskip("PIL.Image")


def film(path: Path, frames: int, codec: str = "mpeg4", size: tuple[int, int] = (32, 48)) -> Path:
    """Write a video whose frames grow lighter."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        (stream.height, stream.width), stream.pix_fmt = size, "yuv420p"
        for number in range(frames):
            shown = np.full((*size, 3), 10 + 9 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize(("name", "frames"), [("a.mp4", 11), ("a.mkv", 8), ("a.avi", 3), ("a.mov", 1)])
def test_frames_of_a_file(tmp_path: Path, name: str, frames: int):
    path = film(tmp_path / name, frames)
    with av.open(str(path)) as container:
        every = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(every) == frames
    found = video.read_frames(Item(path), 4)
    expected = [every[int(place * frames / 4)] for place in range(4)]
    np.testing.assert_array_equal(found, expected)
    assert len({int(frame.mean()) for frame in every}) == frames  # or all frames would do


def test_folders_of_frames(tmp_path: Path):
    """Each folder is a video, its frames in the order in which people count."""
    for name, count in (("b", 12), ("a", 2)):
        (tmp_path / name).mkdir()
        for number in range(count):
            image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / name / f"f{number}.png")
    folder = MediaFolder.open(tmp_path)
    assert (folder.kind, len(folder.items)) == ("image", 14)
    videos = folder.group_frames()
    assert [(item.path.name, item.label, len(item.frames)) for item in videos.items] == [
        ("a", "a", 2), ("b", "b", 12)
    ]  # fmt: skip
    assert video.read_frames(videos.items[1], 6)[:, 0, 0, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert video.read_frames(videos.items[0], 4)[:, 0, 0, 0].tolist() == [0, 0, 1, 1]
    assert videos.described["files"] == 2
    image.fromarray(np.zeros((9, 8, 3), np.uint8)).save(tmp_path / "a" / "f1.png")
    with pytest.raises(AttnprobeError, match=r"The frames of .*a differ in size"):
        video.read_frames(videos.items[0], 4)


def test_which_files_are_videos(tmp_path: Path):
    """Videos are looked for where there is neither an image nor sound; labels are as of images."""
    (tmp_path / "metadata.csv").write_text("file_name,label\na.mp4,wave\n")
    for name in ("a.mp4", "b.MKV"):
        film(tmp_path / name, 2)
    source = open_anything(Source(str(tmp_path)))
    assert source.kind == "video"
    assert [(item.path.name, item.label) for item in source.documents.items] == [
        ("a.mp4", "wave"), ("b.MKV", None)
    ]  # fmt: skip
    image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "still.png")
    assert open_anything(Source(str(tmp_path))).kind == "image"
    assert open_anything(Source(str(tmp_path / "a.mp4"))).kind == "video"


def test_tables(tmp_path: Path):
    """A column names files or folders of frames; a table that names others is read as ever."""
    film(tmp_path / "a.mp4", 2)
    (tmp_path / "b").mkdir()
    for number in (10, 9):
        image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "b" / f"{number}.png")
    path = tmp_path / "t.csv"
    path.write_text("video,label,topic\na.mp4,wave,x\nb,walk,\n")
    source = open_anything(Source(str(path)))
    frames = tuple(tmp_path / "b" / f"{number}.png" for number in (9, 10))
    expected = (Item(tmp_path / "a.mp4", "wave"), Item(tmp_path / "b", "walk", frames))
    assert (source.kind, source.name, source.documents.items) == ("video", "t.csv", expected)
    chosen = open_anything(Source(str(path), label_column="topic")).documents
    assert [item.label for item in chosen.items] == ["x", None]
    for rows, said in (
        ("a.mp4,\ngone.mp4,", r"line 3 of .*t\.csv names gone\.mp4, which is not there"),
        ("a.mp4,\nnote.txt,", r"line 3 of .*t\.csv names no video"),
        ("a.mp4,\n,wave", r"line 3 of .*t\.csv names no video"),
        (".,", r"columns? 'colour'"),
    ):
        path.write_text(f"video,label\n{rows}\n")
        column = "colour" if rows == ".," else None
        with pytest.raises(AttnprobeError, match=said):
            open_anything(Source(str(path), label_column=column))
    for cell in ("absent.mp4", ""):  # of texts about videos
        path.write_text(f"video,text\n{cell},a wave breaks\n")
        source = open_anything(Source(str(path)))
        assert [document.text for document in source.documents] == ["a wave breaks"]
    path.write_text("video,label\nwhat people say of it,x\n")
    source = open_anything(Source(str(path), text_column="video"))
    assert [document.text for document in source.documents] == ["what people say of it"]
    assert open_anything(Source(str(path), label_column="label")).kind == "text"


def write_playlist(path: Path) -> None:
    """Write a list of addresses, which FFmpeg fetches where it may look what a file is."""
    path.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n")


def write_sound(path: Path) -> None:
    with av.open(str(path), "w", format="matroska") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (write_playlist, "can't be read as a video: "),
        (lambda path: path.write_bytes(b""), "can't be read as a video: "),
        (lambda path: path.write_bytes(np.random.default_rng(0).bytes(4000)), "can't be read as a video: "),
        (write_sound, "holds no video"),
    ],
    ids=["playlist", "nothing", "noise", "sound"],
)
def test_what_is_no_video(tmp_path: Path, make: Any, said: str):
    path = tmp_path / ("a.mkv" if make is write_sound else "a.mp4")
    make(path)
    with pytest.raises(AttnprobeError, match=rf"a\.m.* {said}"):
        video.read_frames(Item(path), 4)


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = film(tmp_path / "a.mp4", 5)
    for name, said in (
        ("MOST_FRAMES", "has more than 4 frames"),
        ("MOST_PIXELS", "has frames of 48 x 32, more than is read of a video"),
        ("MOST_BYTES", "has frames of 48 x 32, more than is read of a video"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(video, name, 4)
            with pytest.raises(AttnprobeError, match=said):
                video.read_frames(Item(path), 4)
    shown = list[Path]()

    def show(path: Path) -> Any:
        shown.append(path)
        return np.zeros((8, 8, 3), np.uint8)

    monkeypatch.setattr(video, "read_image", show)
    monkeypatch.setattr(video, "MOST_BYTES", 4)
    with pytest.raises(AttnprobeError, match="has frames of 8 x 8"):
        video.read_frames(Item(tmp_path, frames=(path,) * 9), 9)
    assert len(shown) == 1  # the rest is not even read
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AttnprobeError, match=r"^Videos need PyAV: pip install av\.$"):
        video.read_frames(Item(path), 4)
