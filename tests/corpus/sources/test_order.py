"""A random order of documents: that of samples."""

import random
import sys
from itertools import islice
from types import SimpleNamespace

import pytest

from attnprobe.corpus.document import Document
from attnprobe.corpus.hub import open_split
from attnprobe.corpus.media import Item, MediaFolder
from attnprobe.corpus.open import read_documents
from attnprobe.corpus.order import Order, arrange, arrange_media, draw_documents
from attnprobe.corpus.source import Source

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
        Document(f"{place}", part_of=None if place % 7 == 0 else f"group {place % 5}") for place in range(70)
    ]
    order = Order(3)
    found = list(arrange(documents, order))
    groups = [{document.part_of for document in parts} for parts in found]
    assert all(len(group) == 1 for group in groups)
    assert len({next(iter(group)) for group in groups if group != {None}}) == 5
    assert order.total == len(found) == 15
    for parts in found:
        places = [int(document.text) for document in parts]
        assert places == sorted(places)
        assert len(parts) == 1 or len(parts) == 12
    for number in (1, 4, 9):
        drawn = draw_documents(documents, number, 3, lambda one: one.part_of)
        assert sorted(one.text for one in drawn) == sorted(flat(found[:number]))


def test_files_of_a_folder(tmp_path):
    folder = MediaFolder(tmp_path, "image", tuple(Item(tmp_path / f"{place}.png") for place in range(30)))
    order = Order(4)
    found = arrange_media(folder, order)
    assert order.total == 30
    assert {item.path for item in found.items[:9]} == {
        item.path for item in draw_documents(folder.items, 9, 4)
    }


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
