"""A random order of documents: that of samples, the same from memory, from disk, and line by line."""

import random
import sys
from itertools import islice
from types import SimpleNamespace

import pytest

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.hub import open_split
from attnprobe.corpus.sources.media import Item, MediaFolder
from attnprobe.corpus.sources.opening import draw_documents
from attnprobe.corpus.sources.order import Order, arrange, arrange_media
from attnprobe.corpus.sources.text import Source, read_documents
from attnprobe.errors import AttnprobeError, AttnprobeWarning

TEXTS = [f"text {place}" for place in range(700)]


def flat(parts):
    return [document.text for some in parts for document in some]


@pytest.mark.parametrize("number", [1, 10, 256, 257, 699])
def test_its_first_documents_are_a_sample(number):
    """Of any size: a sample keeps the documents of the smallest keys."""
    order = Order(7)
    found = flat(islice(arrange(map(Document, TEXTS), order), number))
    assert order.total == 700
    assert set(found) == set(draw_documents(TEXTS, number, 7))
    assert len(found) == number
    assert found != sorted(found, key=TEXTS.index) or number == 1


def test_all_come_once_and_another_seed_gives_another_order():
    one, other = (flat(arrange(map(Document, TEXTS), Order(seed))) for seed in (1, 2))
    assert sorted(one) == sorted(other) == sorted(TEXTS)
    assert one[:20] != other[:20]


def test_parts_of_a_document_come_together_in_their_order():
    documents = [
        Document(f"{place}", group=None if place % 7 == 0 else f"group {place % 5}") for place in range(70)
    ]
    order = Order(3)
    found = list(arrange(documents, order))
    groups = [{document.group for document in parts} for parts in found]
    assert all(len(group) == 1 for group in groups)
    assert len({next(iter(group)) for group in groups if group != {None}}) == 5
    assert order.total == len(found) == 15
    for parts in found:
        places = [int(document.text) for document in parts]
        assert places == sorted(places)
        assert len(parts) == 1 or len(parts) == 12
    for number in (1, 4, 9):
        drawn = draw_documents(documents, number, 3, lambda one: one.group)
        assert sorted(one.text for one in drawn) == sorted(flat(found[:number]))


def test_files_of_a_folder(tmp_path):
    folder = MediaFolder(tmp_path, "image", tuple(Item(tmp_path / f"{place}.png") for place in range(30)))
    order = Order(4)
    found = arrange_media(folder, order)
    assert order.total == 30
    assert {item.path for item in found.items[:9]} == {
        item.path for item in draw_documents(folder.items, 9, 4)
    }


FILES = {
    "a.txt": "\n".join(TEXTS),
    "bom.txt": "\ufeff" + "\r\n".join(TEXTS),
    "blank.txt": "\n\n" + "\n \n".join(TEXTS) + "\n\n\n",
    "a.jsonl": "\n".join(f'{{"n": {place}, "text": "{text}"}}' for place, text in enumerate(TEXTS)),
    "a.tsv": "\nlabel\ttext\n" + "\n".join(f"x\t{text}" for text in TEXTS),
}


@pytest.mark.parametrize("name", FILES)
def test_lines_of_a_file(tmp_path, name):
    """They come as they would from memory, and as few are read as are asked for."""
    path = tmp_path / name
    path.write_bytes(FILES[name].encode())
    order = Order(11)
    found = [document.text for document in read_documents(Source(str(path), order=order))]
    assert (order.arranged, order.total) == (True, 700)
    assert found == flat(arrange(map(Document, TEXTS), Order(11)))


def test_a_last_line_that_comes_first(tmp_path):
    """Without a line feed, carriage returns in it would look like the line ends of an old Macintosh."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\rthree")
    for seed in range(8):
        with pytest.warns(AttnprobeWarning, match="carriage returns inside"):
            found = [document.text for document in read_documents(Source(str(path), order=Order(seed)))]
        assert sorted(found) == ["one", "two\rthree"]
    assert len({flat(arrange(map(Document, "ab"), Order(seed)))[0] for seed in range(8)}) == 2


def test_what_is_not_drawn_is_not_read(tmp_path):
    """A line that is no JSON stops only who comes to it; the error says that lines were counted as read."""
    path, order = tmp_path / "a.jsonl", Order(5)
    last = flat(arrange(map(Document, TEXTS), Order(5)))[-1]
    path.write_text(FILES["a.jsonl"].replace(f'"{last}"', "{"))
    documents = read_documents(Source(str(path), order=order))
    assert len(list(islice(documents, 600))) == 600
    with pytest.raises(AttnprobeError, match=r"line 700 of .*a\.jsonl in a random order is not JSON"):
        list(documents)


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv", 'text\n"one\nline"\ntwo\n', {}),  # a line may be a part of a row
        ("a.jsonl", '{"text": "a", "d": 1}\n{"text": "b", "d": 1}\n', {"document_column": "d"}),
        ("a.tsv", "one\t1\ntwo\t2\n", {"text_column": "1"}),
        ("a.txt", "one\rtwo\rthree", {}),
    ],
)
def test_what_has_no_index_comes_as_it_stands(tmp_path, name, content, options):
    path = tmp_path / name
    path.write_bytes(content.encode())
    order = Order(5)
    found = list(read_documents(Source(str(path), order=order, **options)))
    assert found == list(read_documents(Source(str(path), **options)))
    assert not order.arranged
    assert sorted(flat(arrange(iter(found), order))) == sorted(document.text for document in found)


def test_of_the_first_documents_no_index_is_made(tmp_path):
    (tmp_path / "a.txt").write_text(FILES["a.txt"])
    order = Order(5, whole=False)
    documents = read_documents(Source(str(tmp_path / "a.txt"), order=order))
    assert [document.text for document in documents] == TEXTS
    assert not order.arranged


class Stream:
    """A split of a hub dataset as far as it is asked: rows, what is known of them, and a shuffle."""

    info = SimpleNamespace(splits={"train": SimpleNamespace(num_examples=700)})

    def __init__(self, texts):
        self.texts, self.asked = texts, []

    def __iter__(self):
        return ({"text": text, "id": text} for text in self.texts)

    def shuffle(self, *, seed, buffer_size):
        self.asked.append((seed, buffer_size))
        return Stream(random.Random(seed).sample(self.texts, len(self.texts)))


@pytest.fixture
def stream(monkeypatch):
    open_split.cache_clear()
    found = Stream(TEXTS)
    fake = SimpleNamespace(__version__="4.1.0", load_dataset=lambda *_, **__: found)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    yield found
    open_split.cache_clear()


def test_a_dataset_of_the_hub_is_shuffled_as_a_stream(stream):
    order = Order(9)
    source = Source("org/set", split="train", order=order)
    found = flat(arrange(islice(read_documents(source), 40), order))
    assert found == random.Random(9).sample(TEXTS, 700)[:40]
    assert stream.asked == [(9, 10_000)]
    assert order.total == 700


@pytest.mark.parametrize(("order", "column"), [(Order(9, whole=False), None), (Order(9), "id"), (None, None)])
def test_one_of_which_the_first_rows_or_whole_documents_are_wanted_is_not(stream, order, column):
    source = Source("org/set", split="train", order=order, document_column=column)
    assert [document.text for document in read_documents(source)] == TEXTS
    assert stream.asked == []
