"""Pairs of texts as tokens: where answers are read off, what is left out, and what is refused by name."""

from collections.abc import Callable
from typing import Any

import pytest

from attnprobe.corpus.cells import Row, make_table
from attnprobe.corpus.schema import read_table
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError
from attnprobe.run.contrasts import ContrastReader, describe_counts
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise


def documents(pairs: list[dict[str, Any]], **columns: str) -> Any:
    rows = (Row(f"pair {number} of data", pair) for number, pair in enumerate(pairs, 1))
    return read_table(make_table("data", rows), Source("", contrasts=True, **columns))


@pytest.fixture
def read(checkpoint: Any) -> Callable[..., tuple[ContrastReader, list[Any]]]:
    """Read pairs for a tiny model."""

    def read_pairs(name: str, reads: Any, pairs: list[dict[str, Any]]) -> Any:
        reader = ContrastReader(checkpoint(name), reads, 60)
        return reader, list(reader.read(documents(pairs)))

    return read_pairs


MASKED = {
    "clean": "the dog [MASK] late",
    "corrupted": "the cat [MASK] late",
    "answer": "ran",
    "other": "walk",
}


def test_a_mask_is_found_however_it_is_written(read, tiny):
    tokenizer = tiny("bert")[1]
    written = {**MASKED, "clean": "the dog <mask> late"}
    reader, ((clean, corrupted),) = read("bert", "mask", [written])
    assert tokenizer.convert_ids_to_tokens(clean.ids) == ["[CLS]", "the", "dog", "[MASK]", "late", "[SEP]"]
    (readout,) = reader.readouts
    assert readout.places == (3, 3)
    assert tokenizer.convert_ids_to_tokens([readout.answer, readout.other]) == ["ran", "walk"]
    assert len(corrupted.ids) == 6


def test_the_answer_is_the_token_that_stands_in_its_place(read, tiny):
    """Behind a blank, a byte-level token is another one than at the beginning."""
    tokenizer = tiny("roberta")[1]
    pairs = [
        {"clean": "the <mask> ran", "corrupted": "a <mask> ran", "answer": "the"},
        {"clean": "<mask>", "corrupted": "<mask>", "answer": "the"},
    ]
    behind, alone = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (" the", "the"))
    assert len(behind) == len(alone) == 1
    assert behind != alone
    reader, _ = read("roberta", "mask", pairs)
    assert [readout.answer for readout in reader.readouts] == [*behind, *alone]


def test_the_next_word_is_behind_a_blank_and_predicted_at_the_last_token_of_the_text(read, tiny):
    tokenizer = tiny("llama")[1]  # which ends a text by </s>
    reader, ((clean, _),) = read(
        "llama", "next", [{"clean": "the dog", "corrupted": "the dog", "answer": "the"}]
    )
    (readout,) = reader.readouts
    assert [readout.answer] == tokenizer(" the", add_special_tokens=False)["input_ids"]
    assert readout.places == (len(clean.ids) - 2,) * 2
    assert clean.ids[readout.places[0] + 1] == tokenizer.eos_token_id


def test_a_decoder_reads_up_to_a_mask(read, tiny):
    tokenizer = tiny("gpt2")[1]
    _, ((clean, _),) = read(
        "gpt2", "next", [{"clean": "the dog [MASK] late", "corrupted": "the dog [MASK]", "answer": "the"}]
    )
    assert clean.ids == tokenizer("the dog")["input_ids"]


def test_of_two_targets_the_decoder_reads_what_they_share(read, tiny):
    tokenizer = tiny("t5")[1]
    pair = {
        "clean": "the dog",
        "corrupted": "the cat",
        "answer": "the river bank",
        "other": "the river house",
    }
    reader, _ = read("t5", "target", [pair, {**pair, "other": None}])
    ours, theirs = (tokenizer(pair[name])["input_ids"] for name in ("answer", "other"))
    place = next(k for k in range(len(ours)) if ours[k] != theirs[k])
    assert place > 1
    assert reader.targets == [ours[: place + 1], ours]
    assert (reader.readouts[0].answer, reader.readouts[0].other) == (ours[place], theirs[place])


def test_what_is_left_out_is_counted(read):
    pairs = [
        MASKED,
        {**MASKED, "corrupted": "the dog and the cat [MASK] late"},
        {**MASKED, "clean": None},
        {**MASKED, "answer": "  "},
        {**MASKED, "clean": f"the [MASK] {'dog ' * 70}", "corrupted": f"the [MASK] {'cat ' * 70}"},
        {**MASKED, "corrupted": MASKED["clean"]},
    ]
    reader, kept = read("bert", "mask", pairs)
    assert len(kept) == len(reader.readouts) == 2
    assert reader.counts == {"pairs": 6, "unequal": 1, "incomplete": 2, "long": 1}
    sentences = describe_counts(reader.counts, 60)
    assert [sentence.split(" pairs ")[0] for sentence in sentences] == ["2 of 6", "1 of 6", "1 of 6"]


@pytest.mark.parametrize(
    "changed",
    [{"answer": "kindnesses"}, {"answer": "☃"}, {"other": "ran"}, {"clean": "the dog ran late"},
     {"corrupted": "the [MASK] [MASK] late"}, {"clean": 3}, {"answer": ["ran"]}, {"clean": "\ud800 [MASK]"}],
)  # fmt: skip
def test_refusals(read, changed):
    with pytest.raises(AttnprobeError):
        read("bert", "mask", [{**MASKED, **changed}])


def test_other_refusals(read):
    with pytest.raises(AttnprobeError, match="no column called clean"):
        read("bert", "mask", [{"text": "a", "label": "b"}])
    with pytest.raises(AttnprobeError, match="no mask token"):
        read("t5", "mask", [MASKED])
    pair = {"clean": "the dog", "corrupted": "the cat", "answer": "the river", "other": "the river"}
    with pytest.raises(AttnprobeError, match="one begins with the other"):
        read("t5", "target", [pair])


def test_nothing_left(checkpoint):
    pairs = [{**MASKED, "corrupted": "the cat and dog [MASK]"}] * 3
    says = "No pair can be used: 3 of 3 pairs left out: their texts have"
    with (
        pytest.raises(AttnprobeError, match=says),
        tokenise(checkpoint("bert"), documents(pairs), CorpusOptions(), contrasts="mask"),
    ):
        pass


def test_documents_and_columns_by_name(checkpoint):
    pairs = [
        {"good": "the dog", "bad": "the cat", "gold": 1, "source": "a"},
        {"good": "a dog", "bad": "a cat", "gold": 0, "source": "b"},
        {"good": "red dog", "bad": "red cat", "gold": 1, "source": "a"},
        {"good": "blue dog", "bad": "blue cat", "gold": 1, "source": None},
    ]
    named = {"text_column": "good", "pair_column": "2", "label_column": "gold", "document_column": "source"}
    bert = checkpoint("bert")
    with tokenise(bert, documents(pairs, **named), CorpusOptions(), contrasts="class") as corpus:
        assert corpus.batches.documents.tolist() == [0, 1, 0, 2]
        assert (corpus.batches.clusters >= 0).tolist() == [True, False, True, False]
        assert [readout.answer for readout in corpus.readouts] == [1, 0, 1, 1]
        batch = corpus.batches.read(corpus.batches.members)
        assert batch.baseline is not None
        words = bert.tokenizer.batch_decode(batch.baseline.ids, skip_special_tokens=True)
        assert words == ["the cat", "a cat", "red cat", "blue cat"]


def test_batches_agree_in_the_lengths_of_all_sides(checkpoint):
    pairs = [
        {"clean": "the dog ran", "corrupted": "the cat ran", "answer": "the"},
        {"clean": "the dog", "corrupted": "the cat", "answer": "the"},
        {"clean": "a dog", "corrupted": "a cat", "answer": "the river bank"},
        {"clean": "red dog", "corrupted": "red cat", "answer": "the"},
    ]
    with tokenise(checkpoint("t5"), documents(pairs), CorpusOptions(), contrasts="target") as corpus:
        plan = sorted(sorted(members.tolist()) for members in corpus.batches.plan)
        assert plan == [[0], [1, 3], [2]]
        for batch in corpus.batches:
            assert batch.baseline is not None
            assert len(batch.baseline) == len(batch)
