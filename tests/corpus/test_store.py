"""The store of sequences: several threads may read it at a time."""

from concurrent.futures import ThreadPoolExecutor

from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokenization import TokenSequence


def test_threads_do_not_disturb_one_another():
    sequences = [[number] * (1 + number % 7) for number in range(400)]
    with SequenceStore(400) as store, ThreadPoolExecutor(4) as pool:
        store.extend(TokenSequence(ids) for ids in sequences)
        for _ in range(20):
            found = list(pool.map(lambda number: store.ids(number).tolist(), range(400), chunksize=1))
            assert found == sequences
