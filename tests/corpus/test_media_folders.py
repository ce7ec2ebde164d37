"""Which files a folder holds, and what is said about them."""

import json

import pytest

from attnprobe.corpus.media import IMAGE, SOUND, MediaFolder
from attnprobe.errors import AttnprobeError


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


def refused(path, column=None):
    with pytest.raises(AttnprobeError) as caught:
        MediaFolder.open(path, column)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


class TestListing:
    def test_in_the_order_of_names_whatever_was_written_first(self, folder):
        root = folder("c.png", "a.JPG", "sub/d.webp", "b.tiff", "sub/deep/e.gif")
        media = MediaFolder.open(root)
        assert names(media, root) == ["a.JPG", "b.tiff", "c.png", "sub/d.webp", "sub/deep/e.gif"]
        assert media.kind == IMAGE

    def test_neither_or_both(self, folder):
        assert "without text, images or sound" in refused(folder("text.txt", ".hidden.png"))
        assert "images and sound" in refused(folder("a.png", "sub/b.wav"))

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
        assert "no column 'colour'; its columns are file_name, label, mood" in refused(root, "colour")

    @pytest.mark.parametrize("line", ["{", "[]", '{"label": 1}', "[" * 100_000])
    def test_a_broken_table_of_json(self, folder, line):
        good = '{"file_name": "a.png", "label": "x"}\n'
        assert "metadata.jsonl" in refused(folder("a.png", jsonl=good + line + "\n"))
        assert "metadata.jsonl" in refused(folder("a.png", jsonl=line + "\n"))


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
