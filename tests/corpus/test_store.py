"""Which documents are read, in which order; and their sequences on disk."""

import math
import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from attnprobe.corpus.batch import shuffle_tokens
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import Item, MediaFolder
from attnprobe.corpus.open import open_split, read_documents
from attnprobe.corpus.source import Order, Source
from attnprobe.corpus.store import SequenceStore, arrange, arrange_media, draw_documents, select
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.errors import AttnprobeError
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise

TEXTS = [f"text {place}" for place in range(700)]


def flat(parts):
    return [document.text for part in parts for document in part]


@pytest.mark.parametrize("number", [1, 256, 257])
def test_its_first_documents_are_a_sample(number):
    """Of any size: a sample keeps the documents of the smallest keys."""
    order = Order(7)
    texts = flat(islice(arrange(map(Document, TEXTS), order), number))
    assert order.total == 700
    assert set(texts) == set(draw_documents(TEXTS, number, 7))
    assert len(texts) == number
    assert texts != sorted(texts, key=TEXTS.index) or number == 1


def test_all_come_once_and_another_seed_gives_another_order():
    first, other = (flat(arrange(map(Document, TEXTS), Order(seed))) for seed in (1, 2))
    assert sorted(first) == sorted(other) == sorted(TEXTS)
    assert first[:20] != other[:20]


def test_parts_of_a_document_come_together_in_their_order():
    documents = [
        Document(f"{place}", part_of=None if place % 7 == 0 else f"group {place % 5}") for place in range(70)
    ]
    order = Order(3)
    arranged = list(arrange(documents, order))
    groups = [{document.part_of for document in parts} for parts in arranged]
    assert all(len(group) == 1 for group in groups)
    assert len({next(iter(group)) for group in groups if group != {None}}) == 5
    assert order.total == len(arranged) == 15
    for parts in arranged:
        places = [int(document.text) for document in parts]
        assert places == sorted(places)
        assert len(parts) == 1 or len(parts) == 12
    for number in (1, 4, 9):
        drawn = draw_documents(documents, number, 3)
        assert sorted(one.text for one in drawn) == sorted(flat(arranged[:number]))


def test_files_of_a_folder(tmp_path):
    folder = MediaFolder(tmp_path, "image", tuple(Item(tmp_path / f"{place}.png") for place in range(30)))
    order = Order(4)
    shuffled = arrange_media(folder, order)
    assert order.total == 30
    assert {item.path for item in shuffled.items[:9]} == {
        item.path for item in draw_documents(folder.items, 9, 4)
    }


class Stream:
    """A split of a hub dataset as far as it is asked: rows, what is known of them, and a shuffle."""

    info = SimpleNamespace(splits={"train": SimpleNamespace(num_examples=700)})

    def __init__(self, texts):
        self.texts, self.calls = texts, []

    def __iter__(self):
        return ({"text": text, "id": text} for text in self.texts)

    def shuffle(self, *, seed, buffer_size):
        self.calls.append((seed, buffer_size))
        return Stream(random.Random(seed).sample(self.texts, len(self.texts)))


@pytest.fixture
def stream(monkeypatch):
    open_split.cache_clear()
    data = Stream(TEXTS)
    fake = SimpleNamespace(__version__="4.1.0", load_dataset=lambda *_, **__: data)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    yield data
    open_split.cache_clear()


def test_a_dataset_of_the_hub_is_shuffled_as_a_stream(stream):
    order = Order(9)
    source = Source("org/set", split="train", order=order)
    texts = flat(arrange(islice(read_documents(source), 40), order))
    assert texts == random.Random(9).sample(TEXTS, 700)[:40]
    assert stream.calls == [(9, 10_000)]
    assert order.total == 700


@pytest.mark.parametrize(("order", "column"), [(Order(9, whole=False), None), (Order(9), "id"), (None, None)])
def test_one_of_which_the_first_rows_or_whole_documents_are_wanted_is_not(stream, order, column):
    source = Source("org/set", split="train", order=order, document_column=column)
    assert [document.text for document in read_documents(source)] == TEXTS
    assert stream.calls == []


def test_each_item_and_each_pair_is_as_likely_as_any_other():
    """Against the binomial of 4,000 seeds: 4 of 9 items, pairs with 4 * 3 / (9 * 8)."""
    seeds, size, number = 4000, 9, 4
    drawn = np.zeros((seeds, size))
    for seed in range(seeds):
        drawn[seed, draw_documents(range(size), number, seed)] = 1
    assert (drawn.sum(1) == number).all()
    together = drawn.T @ drawn / seeds
    single, pair = number / size, number * (number - 1) / (size * (size - 1))
    off = together[~np.eye(size, dtype=bool)]
    for shares, expected in ((np.diag(together), single), (off, pair)):
        error = math.sqrt(expected * (1 - expected) / seeds)
        assert np.abs(shares - expected).max() < 4.5 * error


def test_a_sample_is_of_what_the_limit_leaves():
    texts = list(map(Document, map(str, range(50))))
    everything = [document.text for document in select(texts, None, 10, 3)]
    first = [document.text for document in select(texts, 20, 10, 3)]
    assert len(everything) == len(first) == 10
    assert max(map(int, first)) < 20 < max(map(int, everything))
    assert list(select(texts, 3, None, 3)) == texts[:3]
    assert len(list(select(texts, 10**30, 10**30, 3))) == 50


#: Ten documents: some whole, some of several texts, which need not follow each other.
WIDER = [None, "a", "a", None, "b", "a", None, "c", "b", None, "d", None, None, "d"]
DOCUMENTS = [Document(str(place), part_of=name) for place, name in enumerate(WIDER)]


@pytest.mark.parametrize("of", [1, 3, 10])
def test_each_document_is_in_one_part_with_all_its_texts(of):
    parts = [list(select(DOCUMENTS, None, None, 0, (number, of))) for number in range(1, of + 1)]
    assert sorted((one for part in parts for one in part), key=DOCUMENTS.index) == DOCUMENTS
    names = [{one.part_of or one.text for one in part} for part in parts]
    assert sum(map(len, names)) == len(set().union(*names)) == 10
    assert max(map(len, names)) - min(map(len, names)) <= 1
    assert all(part == sorted(part, key=DOCUMENTS.index) for part in parts)


def test_parts_are_of_what_limit_and_sample_leave():
    chosen = list(select(DOCUMENTS, 12, 5, 3))
    assert {one.part_of for one in chosen if one.part_of} <= {"a", "b", "c", "d"}
    parts = [list(select(DOCUMENTS, 12, 5, 3, (number, 2))) for number in (1, 2)]
    assert sorted(parts[0] + parts[1], key=DOCUMENTS.index) == chosen
    assert all(parts)
    with pytest.raises(AttnprobeError, match="Part 11/12 holds nothing: there are only 10 documents; give"):
        list(select(DOCUMENTS, None, None, 0, (11, 12)))


def test_threads_do_not_disturb_one_another():
    sequences = [[number] * (1 + number % 7) for number in range(400)]
    with SequenceStore(400) as store, ThreadPoolExecutor(4) as pool:
        store.extend(TokenSequence(ids) for ids in sequences)
        for _ in range(5):
            read_back = list(pool.map(lambda number: store.ids(number).tolist(), range(400), chunksize=1))
            assert read_back == sequences


SEED = 42
LINE = "the dog ran over the road by the river , and the train was slow"


@pytest.fixture
def read(saved):
    """Give the tokens of documents, as they are and shuffled, with those of a decoder: text by text."""

    def ask(name, *documents, seed=SEED, labelled=False, **options):
        checkpoint = load_checkpoint(str(saved(name)))
        given = [one if isinstance(one, Document) else Document(one) for one in documents]
        with tokenise(checkpoint, given, CorpusOptions(**options), labelled=labelled) as corpus:
            read_rows = []
            for batches in (corpus.batches, corpus.batches.shuffle(seed)):
                rows = {}
                for batch in batches:
                    assert batch.tokens is not None
                    targets = batch.inputs.get("decoder_input_ids")
                    for place, member in enumerate(batch.members.tolist()):
                        asking = None if targets is None else targets[place].tolist()
                        rows[member] = batch.ids[place].tolist(), asking
                read_rows.append([rows[member] for member in sorted(rows)])
            return checkpoint.tokenizer, *read_rows

    return ask


def test_a_part_keeps_its_tokens_and_what_is_fixed_stays():
    ids = np.arange(100, 140, dtype=np.int32)
    fixed, parts = ids % 7 == 0, np.repeat([0, 1], 20)
    shuffled = shuffle_tokens(ids, fixed, parts, SEED)
    assert np.array_equal(shuffled[fixed], ids[fixed])
    for part in (0, 1):
        assert Counter(shuffled[parts == part]) == Counter(ids[parts == part])
    assert (shuffled != ids)[~fixed].mean() > 0.7
    assert np.array_equal(shuffle_tokens(ids, fixed, parts, SEED), shuffled)
    assert not np.array_equal(shuffle_tokens(ids, fixed, parts, SEED + 1), shuffled)


def test_the_order_depends_on_seed_and_tokens_alone(read):
    """Not on company, batches, or the part of a corpus that a job reads."""
    lines = [LINE, "stone", "blue water and red light", LINE[4:], "the parcel came late by day and by night"]
    _, _, mixed = read("bert", *lines)
    assert read("bert", *lines, batch_tokens=1)[2] == mixed
    assert read("bert", *lines[::-1])[2] == mixed[::-1]
    for line, row in zip(lines, mixed, strict=True):
        assert read("bert", line)[2] == [row]
    assert read("bert", *lines, seed=7)[2] != mixed


def test_given_targets_are_shuffled_within_themselves(read):
    documents = [Document(LINE, label="red water under the green house by night")]
    _, plain, mixed = read("bart", *documents, labelled=True)
    (source, target), (source_after, target_after) = plain[0], mixed[0]
    assert source != source_after
    assert target != target_after
    assert Counter(target) == Counter(target_after)
    assert (target[0], target[1]) == (target_after[0], target_after[1])  # start and <s>
    assert Counter(source) == Counter(source_after)
