"""Batches of exactly equal length that cover the corpus once, read back from disk as it was."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.corpus.batch import Batch, TokenisedTexts
from attnprobe.corpus.batches import Batches, Clip, MediaBatches, plan_batches
from attnprobe.corpus.media import Item
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokenizer import Frame, TokenKinds, rank_types
from attnprobe.corpus.tokens import TokenSequence

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=60).map(lambda n: np.array(n, np.int32))


class TestPlan:
    """Which sequences go together."""

    @given(lengths, st.integers(1, 300), st.none() | st.integers(1, 5000))
    def test_covers_every_sequence_once(self, lengths, budget, cells):
        planned = plan_batches(lengths, budget, cells)
        assert sorted(np.concatenate(planned).tolist()) == list(range(len(lengths)))

    @given(lengths, st.integers(1, 300), st.none() | st.integers(1, 5000))
    def test_equal_length_within_the_budget(self, lengths, budget, cells):
        for batch in plan_batches(lengths, budget, cells):
            (length,) = set(lengths[batch].tolist())
            assert len(batch) == 1 or len(batch) * length <= budget
            assert cells is None or len(batch) == 1 or len(batch) * length**2 <= cells

    @given(lengths, st.integers(1, 300))
    def test_order(self, lengths, budget):
        """The longest first; equals in the order of the corpus; the same each time."""
        order = np.concatenate(plan_batches(lengths, budget)).tolist()
        assert order == sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))


class TestStore:
    """The corpus on disk."""

    SEQUENCES = (
        TokenSequence([2, 7, 7, 3]),
        TokenSequence([2, 9, 3, 8, 3], second=3),
        TokenSequence([5]),
        TokenSequence([2, 3]),
    )

    @pytest.fixture
    def store(self):
        with SequenceStore(10) as store:
            yield store.extend(self.SEQUENCES)

    def test_the_file_is_gone_afterwards(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        store = SequenceStore(10)
        with pytest.raises(ZeroDivisionError), store.extend(self.SEQUENCES):
            raise ZeroDivisionError
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ValueError, match="closed"):
            store.ids(0)


@pytest.fixture
def tokenizer(tiny):
    return tiny("bert")[1]


class TestFeatures:
    """What is known about the tokens of a batch."""

    TEXTS = ("the dog , late", "is it late ?", "a bird", "the [SEP] dog [MASK] !!")
    PAIR = ("a bird", ". stone")

    @pytest.fixture
    def batches(self, tokenizer):
        with SequenceStore(len(tokenizer)) as store:
            store.extend(TokenSequence(tokenizer(text)["input_ids"]) for text in self.TEXTS)
            store.extend([TokenSequence(tokenizer(*self.PAIR)["input_ids"], second=4)])
            kinds = TokenKinds(tokenizer, Frame.of(tokenizer))
            rarity = rank_types(store.counts, kinds.framing)
            yield lambda content_only=False: Batches(
                TokenisedTexts(store, kinds, rarity, content_only), budget=100
            )

    def test_every_sequence_in_its_batch(self, batches, tokenizer):
        texts = [tokenizer.decode(row) for batch in batches() for row in batch.ids]
        assert sorted(texts) == sorted(
            tokenizer.decode(tokenizer(*args)["input_ids"])
            for args in [*((t,) for t in self.TEXTS), self.PAIR]
        )
        assert len(batches()) == len(list(batches())) == 4  # lengths 8, 7, 6 twice, and 4

    def test_clusters_name_documents_of_several_sequences(self, tokenizer):
        documents = [0, 1, 1, 2, 1]
        with SequenceStore(len(tokenizer)) as store:
            store.extend(TokenSequence([2, 7, 3], document=number, name=number + 5) for number in documents)
            kinds = TokenKinds(tokenizer, Frame.of(tokenizer))
            cut = Batches(TokenisedTexts(store, kinds, rank_types(store.counts, kinds.framing)), budget=100)
            assert len(set(cut.names.tolist())) == 3
            assert (cut.names > 0).all()
            assert (cut.clusters == np.where(np.array(documents) == 1, cut.names, -1)).all()

    @pytest.mark.parametrize("content_only", [False, True])
    def test_marks(self, batches, tokenizer, content_only):
        for batch in batches(content_only=content_only):
            for row, ids in enumerate(batch.ids):
                tokens = batch.tokens.rows(row, row + 1)
                names = tokenizer.convert_ids_to_tokens(ids.tolist())
                special = [name in {"[CLS]", "[SEP]"} for name in names]
                assert tokens.first[0].tolist() == [place == 0 for place in range(len(names))]
                assert tokens.separator[0].tolist() == [name == "[SEP]" for name in names]
                assert tokens.punctuation[0].tolist() == [name in {",", "?", "!", "."} for name in names]
                assert (tokens.special | tokens.punctuation | tokens.other).all()
                assert not (tokens.other & (tokens.special | tokens.punctuation)).any()
                assert tokens.kept[0].tolist() == [not (content_only and mark) for mark in special]
                assert (tokens.rank[0] < 0).tolist() == special
                assert not tokens.rare[0][torch.tensor(special)].any()


class TestUnseen:
    """Tokens that only the model makes."""

    def test_outside_of_the_grid(self):
        grids = {(): Grid(2, 2, 2)}
        clips, lengths = [Clip(Item(Path("a.png")))], np.array([8], np.int32)
        options = {"digest": "0", "budget": 8, "grids": grids, "content_only": True}
        corpus = MediaBatches(SimpleNamespace(kind="image"), clips, lengths, **options)
        keys = Batch({}, None, np.array([0]), corpus).lay_out(Kind.ENCODER, 8, 8).keys
        assert keys.first[0].tolist() == [True] + [False] * 7
        assert keys.separator[0].tolist() == [False, True, *[False] * 4, True, True]
        assert keys.other[0].tolist() == keys.kept[0].tolist() == [False, False, *[True] * 4, False, False]
        assert keys.rank.eq(-1).all()
        assert not keys.rare.any()
