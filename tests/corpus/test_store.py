"""The store of sequences, which several threads may read at a time, and its tokens in a random order."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from attnprobe.corpus.batch import shuffle_tokens
from attnprobe.corpus.document import Document
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise


def test_threads_do_not_disturb_one_another():
    sequences = [[number] * (1 + number % 7) for number in range(400)]
    with SequenceStore(400) as store, ThreadPoolExecutor(4) as pool:
        store.extend(TokenSequence(ids) for ids in sequences)
        for _ in range(5):
            found = list(pool.map(lambda number: store.ids(number).tolist(), range(400), chunksize=1))
            assert found == sequences


SEED = 42
TEXT = "the dog ran over the road by the river , and the train was slow"
PAIR = ("is it late ? never walk at night", "the parcel came by day , slow water and blue light")


@pytest.fixture
def read(saved):
    """Give the tokens of documents, as they are and shuffled, with those of a decoder: text by text."""

    def ask(name, *documents, seed=SEED, labelled=False, **options):
        checkpoint = load_checkpoint(str(saved(name)))
        given = [one if isinstance(one, Document) else Document(one) for one in documents]
        with tokenise(checkpoint, given, CorpusOptions(**options), labelled=labelled) as corpus:
            found = []
            for batches in (corpus.batches, corpus.batches.shuffle(seed)):
                rows = {}
                for batch in batches:
                    assert batch.tokens is not None
                    targets = batch.inputs.get("decoder_input_ids")
                    for place, member in enumerate(batch.members.tolist()):
                        asking = None if targets is None else targets[place].tolist()
                        rows[member] = batch.ids[place].tolist(), asking
                found.append([rows[member] for member in sorted(rows)])
            return checkpoint.tokenizer, *found

    return ask


def test_a_part_keeps_its_tokens_and_what_is_fixed_stays():
    ids = np.arange(100, 140, dtype=np.int32)
    fixed, parts = ids % 7 == 0, np.repeat([0, 1], 20)
    found = shuffle_tokens(ids, fixed, parts, SEED)
    assert np.array_equal(found[fixed], ids[fixed])
    for part in (0, 1):
        assert Counter(found[parts == part]) == Counter(ids[parts == part])
    assert (found != ids)[~fixed].mean() > 0.7
    assert np.array_equal(shuffle_tokens(ids, fixed, parts, SEED), found)
    assert not np.array_equal(shuffle_tokens(ids, fixed, parts, SEED + 1), found)


def test_the_order_depends_on_seed_and_tokens_alone(read):
    """Not on company, batches, or the part of a corpus that a job reads."""
    lines = [TEXT, "stone", "blue water and red light", TEXT[4:], "the parcel came late by day and by night"]
    _, _, mixed = read("bert", *lines)
    assert read("bert", *lines, batch_tokens=1)[2] == mixed
    assert read("bert", *lines[::-1])[2] == mixed[::-1]
    for line, found in zip(lines, mixed, strict=True):
        assert read("bert", line)[2] == [found]
    assert read("bert", *lines, seed=7)[2] != mixed


def test_given_targets_are_shuffled_within_themselves(read):
    documents = [Document(TEXT, label="red water under the green house by night")]
    _, plain, mixed = read("bart", *documents, labelled=True)
    (source, target), (source_after, target_after) = plain[0], mixed[0]
    assert source != source_after
    assert target != target_after
    assert Counter(target) == Counter(target_after)
    assert (target[0], target[1]) == (target_after[0], target_after[1])  # start and <s>
    assert Counter(source) == Counter(source_after)
