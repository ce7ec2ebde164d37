"""Gold links on their way from documents to what a statistic sees, in every kind of attention."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from attnprobe.attention.kinds import PARTS, Kind
from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.document import Document
from attnprobe.corpus.links import read_linked_rows
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.examples import check_targets
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise
from attnprobe.statistics.statistic import Statistic
from attnprobe.survey.measure import open_evaluator

Loaded = Callable[[str], Checkpoint]

TEXTS = [
    "the river bank was slow , and the dog ran",
    "café 東京 dog !",
    "she said it was late",
    "the old red house stood by the water , under a blue light",
]
TARGETS = ["a cat walks by night", "naïve 👩\u200d👧 birds", "it came early", "stone"]


def spans(text: str) -> list[list[int]]:
    found, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        found.append([place, place + len(word)])
        place += len(word)
    return found


def rows(*, targets: bool = False) -> list[dict[str, Any]]:
    """Link neighbours, in either direction; and the first words of text and target, in both directions."""
    found = []
    for text, target in zip(TEXTS, TARGETS, strict=True):
        words = spans(text)
        links = [
            {"source": words[0], "target": words[1], "label": "forth"},
            {"source": words[2], "target": words[1], "label": "back", "also": [words[0]]},
            {"source": words[1], "target": words[2], "label": "named", "candidates": [words[0], words[2]]},
        ]
        row: dict[str, Any] = {"text": text, "words": words, "links": links}
        if targets:
            others = spans(target)
            into = {"source_in": "text", "target_in": "target"}
            out = {"source_in": "target", "target_in": "text"}
            both = {"source_in": "target", "target_in": "target"}
            links += [
                {"source": words[1], "target": others[-1], "label": "into", **into},
                {"source": others[0], "target": words[-1], "label": "out", **out, "also": [words[0]]},
                {"source": others[0], "target": words[0], "label": "choose", "candidates": words[:2], **out},
            ]
            if len(others) > 1:
                links.append({"source": others[1], "target": others[0], "label": "both", **both})
            row |= {"target": target, "words_target": others}
        found.append(row)
    return found


@dataclass
class Seen:
    """What a statistic saw of a sequence: the tokens on both sides, and what is said of them."""

    queries: list[int]
    keys: list[int]
    said: TokenAnnotation


def seen(checkpoint: Checkpoint, documents: list[Document], **how: Any) -> dict[Kind, list[Seen]]:
    """Measure a corpus, and keep what a statistic is shown."""
    shown: dict[Kind, list[Any]] = {}

    def watch(block: Any) -> torch.Tensor:
        layout = block.layout
        kind = Kind.CROSS if layout.crossed else Kind.DECODER if layout.causal else Kind.ENCODER
        assert len(layout.annotations) == len(block.probabilities)
        shown.setdefault(kind, []).extend(layout.annotations)
        return block.probabilities.sum((2, 3))

    statistic = Statistic("watch", "share", watch, scope="map")
    documents, labelled = check_targets(checkpoint, documents)
    options = CorpusOptions(batch_tokens=40, truncate=labelled, **how)
    found: dict[Kind, list[Seen]] = {kind: [] for kind in PARTS}
    with (
        tokenise(checkpoint, documents, options, labelled=labelled) as corpus,
        open_evaluator(checkpoint, inspect(checkpoint), [statistic]) as measure,
    ):
        assert any(len(members) > 1 for members in corpus.batches.plan) or len(corpus.batches.plan) > 1
        order = []
        for batch in corpus.batches:
            shown.clear()
            measure.evaluate(batch)
            order += batch.members.tolist()
            for kind, said in shown.items():
                inputs = [batch.ids, batch.inputs.get("decoder_input_ids", batch.ids)]
                keys, queries = inputs[kind is Kind.DECODER], inputs[kind is not Kind.ENCODER]
                assert said[: len(batch)] == said[-len(batch) :]  # of the first layer, and of the last
                every = zip(queries.tolist(), keys.tolist(), said[: len(batch)], strict=True)
                found[kind] += [Seen(*one) for one in every]
    return {
        kind: [one for _, one in sorted(zip(order, every, strict=True), key=lambda pair: pair[0])]
        for kind, every in found.items()
        if every
    }


def read(checkpoint: Checkpoint, ids: list[int], span: TokenSpan) -> str:
    tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
    return tokenizer.decode(ids[span.start : span.stop]).strip()


def ends(checkpoint: Checkpoint, one: Seen) -> list[tuple[str, str, str, str]]:
    """Spell the ends of links out: label, who can be asked, source, target."""
    found = []
    for link in one.said.links:
        sides = (one.keys, one.queries) if link.asks == "backward" else (one.queries, one.keys)
        words = [read(checkpoint, *side) for side in zip(sides, (link.source, link.target), strict=True)]
        found.append((link.label, link.asks, *words))
    return found


@pytest.mark.parametrize("name", ["bart", "gpt2"])
def test_self_attention(checkpoint: Loaded, name: str):
    """Of an encoder, a decoder, and of the encoder beside a decoder: a byte-level tokenizer spells it out."""
    loaded = checkpoint(name)
    kind = Kind.DECODER if name == "gpt2" else Kind.ENCODER
    for text, one in zip(TEXTS, seen(loaded, list(read_linked_rows(rows())))[kind], strict=True):
        words = text.split()
        assert one.said.keys is None
        assert [read(loaded, one.queries, word) for word in one.said.words] == words
        assert ends(loaded, one) == [
            ("forth", "both", words[0], words[1]),
            ("back", "both", words[2], words[1]),
            ("named", "both", words[1], words[2]),
        ]
        assert [read(loaded, one.keys, also) for also in one.said.links[1].also] == words[:1]
        assert [read(loaded, one.keys, c) for c in one.said.links[2].candidates] == [words[0], words[2]]


@pytest.mark.parametrize("name", ["roberta", "gpt2"])
def test_pairs(checkpoint: Loaded, name: str):
    """Both texts are one sequence, of an encoder and of a decoder alike."""
    loaded, (first, second) = checkpoint(name), TEXTS[:2]
    links = [{"source": [0, 3], "target": [0, 4], "target_in": "pair", "label": "x"}]
    links += [{"source": [5, 7], "source_in": "pair", "target": [4, 9], "label": "y", "also": [[0, 3]]}]
    row = {"text": first, "text_pair": second, "links": links}
    ((one, *_),) = seen(loaded, list(read_linked_rows([row, row]))).values()
    words = [read(loaded, one.queries, word) for word in one.said.words]
    assert words == [*first.split(), *second.split()]
    assert ends(loaded, one) == [("x", "both", "the", "café"), ("y", "both", "東京", "river")]
    assert [read(loaded, one.keys, also) for also in one.said.links[1].also] == ["the"]


class TestItself:
    """The decoder reads what the encoder does."""

    @pytest.mark.parametrize("name", ["bart", "t5"])
    def test_every_word_is_one_later(self, checkpoint: Loaded, name: str):
        found = seen(checkpoint(name), list(read_linked_rows(rows())))
        assert set(found) == set(PARTS)
        for encoder, decoder, cross in zip(*(found[kind] for kind in PARTS), strict=True):
            one, other = encoder.said, decoder.said
            assert decoder.queries[1:] == encoder.queries[:-1]
            assert len(one.words) == len(other.words) > 0  # an end of sentence falls off
            for word, later in zip(one.words, other.words, strict=True):
                assert encoder.keys[word.start : word.stop] == decoder.keys[later.start : later.stop]
            assert [link.label for link in other.links] == ["forth", "back", "named"]
            for link, later in zip(one.links, other.links, strict=True):
                for span, moved in zip(_spans(link), _spans(later), strict=True):
                    assert (span.start + 1, span.stop + 1) == (moved.start, moved.stop)
            assert (cross.said.words, cross.said.keys) == (other.words, one.words)
            assert cross.said.same
            assert not one.same
            assert not other.same

    def test_between_the_two(self, checkpoint: Loaded):
        """Each link is asked from its source, and from its target unless it names candidates."""
        loaded = checkpoint("bart")
        for text, cross in zip(TEXTS, seen(loaded, list(read_linked_rows(rows())))[Kind.CROSS], strict=True):
            words = text.split()
            assert ends(loaded, cross) == [
                ("forth", "forward", words[0], words[1]),
                ("forth", "backward", words[0], words[1]),
                ("back", "forward", words[2], words[1]),
                ("back", "backward", words[2], words[1]),
                ("named", "forward", words[1], words[2]),
            ]
            forward, backward, named = cross.said.links[2:]
            assert [read(loaded, cross.keys, span) for span in forward.also] == words[:1]
            assert [read(loaded, cross.queries, span) for span in backward.also] == words[:1]
            assert [read(loaded, cross.keys, span) for span in named.candidates] == [words[0], words[2]]

    def test_the_last_word_falls_off(self, checkpoint: Loaded, tiny: Callable[[str], Any]):
        """Without an end of sentence; it is lost on that side alone, and its link there is not counted."""
        loaded = replace(checkpoint("bart"), tokenizer=tiny("gpt2")[1])
        row = {"text": "the dog ran", "links": [{"source": [0, 3], "target": [8, 11], "label": "x"}]}
        row["links"].append({"source": [4, 7], "target": [0, 3], "label": "y"})
        found = seen(loaded, list(read_linked_rows([row, row | {"text": "the cat ran"}])))
        (encoder, decoder, cross) = (found[kind][0] for kind in PARTS)
        assert [read(loaded, encoder.queries, word) for word in encoder.said.words] == ["the", "dog", "ran"]
        assert [read(loaded, decoder.queries, word) for word in decoder.said.words] == ["the", "dog"]
        assert cross.said.keys == encoder.said.words
        assert [link[0] for link in ends(loaded, decoder)] == ["y"]
        assert ends(loaded, cross) == [
            ("x", "forward", "the", "ran"),
            ("y", "forward", "dog", "the"),
            ("y", "backward", "dog", "the"),
        ]
        documents = list(read_linked_rows([row]))
        with tokenise(loaded, documents, CorpusOptions()) as corpus:
            assert (corpus.reading.links, corpus.reading.links_lost) == (2, 0)

    @pytest.mark.parametrize("window", [5, 9])
    def test_windows(self, checkpoint: Loaded, window: int):
        loaded = checkpoint("bart")
        found = seen(loaded, list(read_linked_rows(rows())), max_length=window)
        assert len(found[Kind.ENCODER]) > len(TEXTS)
        for encoder, decoder, cross in zip(*(found[kind] for kind in PARTS), strict=True):
            assert cross.said.keys == encoder.said.words
            assert cross.said.words == decoder.said.words
            assert len(cross.said.words) == len(cross.said.keys)
            for link in cross.said.links:
                sides = (
                    (cross.keys, cross.queries) if link.asks == "backward" else (cross.queries, cross.keys)
                )
                assert len(sides[0]) >= link.source.stop
                assert len(sides[1]) >= link.target.stop

    def test_a_batch_that_is_parted(self, checkpoint: Loaded):
        documents = list(read_linked_rows(rows()[:1] * 5))
        with tokenise(checkpoint("t5"), documents, CorpusOptions()) as corpus:
            (batch,) = corpus.batches
            first, second = batch.halves()
            assert (len(first), len(second)) == (3, 2)
            for name in ("annotations", "target_annotations", "cross_annotations"):
                whole = getattr(batch, name)
                assert len(whole) == 5
                assert (*getattr(first, name), *getattr(second, name)) == whole


class TestAnother:
    """The decoder reads targets of their own."""

    @pytest.mark.parametrize("name", ["bart", "t5"])
    def test_words(self, checkpoint: Loaded, name: str):
        """By the characters of the target's tokens, each of them one later."""
        loaded = checkpoint(name)
        found = seen(loaded, list(read_linked_rows(rows(targets=True))))
        tokenizer: Any = loaded.tokenizer
        for target, encoder, decoder, cross in zip(TARGETS, *(found[kind] for kind in PARTS), strict=True):
            given = tokenizer(text_target=target, return_offsets_mapping=True)
            assert decoder.queries[1:] == given["input_ids"][:-1]
            expected = []
            for start, stop in spans(target):
                mapping = enumerate(given["offset_mapping"])
                places = [p for p, (a, b) in mapping if a < b and max(a, start) < min(b, stop)]
                expected.append(TokenSpan(places[0] + 1, places[-1] + 2))
            assert list(decoder.said.words) == expected
            assert (cross.said.words, cross.said.keys) == (decoder.said.words, encoder.said.words)
            assert not cross.said.same

    def test_links(self, checkpoint: Loaded):
        loaded = checkpoint("bart")
        documents = list(read_linked_rows(rows(targets=True)))
        found = seen(loaded, documents)
        for place, (encoder, decoder, cross) in enumerate(zip(*(found[kind] for kind in PARTS), strict=True)):
            words, others = TEXTS[place].split(), TARGETS[place].split()
            assert [link[0] for link in ends(loaded, encoder)] == ["forth", "back", "named"]
            both = [("both", "both", others[1], others[0])] if len(others) > 1 else []
            assert ends(loaded, decoder) == both
            assert ends(loaded, cross) == [
                ("into", "backward", words[1], others[-1]),
                ("out", "forward", others[0], words[-1]),
                ("choose", "forward", others[0], words[0]),
            ]
            assert [read(loaded, cross.keys, span) for span in cross.said.links[1].also] == words[:1]
            assert [read(loaded, cross.keys, span) for span in cross.said.links[2].candidates] == words[:2]
        labelled = CorpusOptions(truncate=True)
        with tokenise(loaded, documents, labelled, labelled=True) as corpus:
            reading = corpus.reading
            links = sum(len(document.annotation.links) for document in documents)
            assert (reading.links, reading.links_lost, reading.links_unasked) == (links, 0, 0)

    @pytest.mark.parametrize("longest", [2, 7])
    def test_targets_that_are_cut(self, checkpoint: Loaded, longest: int):
        """A character of which some bytes are gone is no word."""
        model = copy.deepcopy(checkpoint("bart").model)
        model.config.max_target_positions = longest
        loaded = replace(checkpoint("bart"), model=model)
        target = "the 👩 dog"
        words = spans(target)
        links = [{"source": words[1], "target": [0, 3], "source_in": "target"}]
        links += [{"source": words[2], "target": words[0], "source_in": "target", "target_in": "target"}]
        row = {"text": "the dog", "target": target, "words_target": words, "links": links}
        options = CorpusOptions(truncate=True)
        with tokenise(loaded, read_linked_rows([row]), options, labelled=True) as corpus:
            (batch,) = corpus.batches
            ids = batch.inputs["decoder_input_ids"][0].tolist()
            assert len(ids) <= longest
            found = [read(loaded, ids, word) for word in batch.target_annotations[0].words]
            whole = read(loaded, ids, TokenSpan(2, len(ids))).split()
            assert found == [word for word in target.split() if word in whole]
            assert batch.target_annotations[0].cut == (found != target.split())
            assert corpus.reading.links == 2
            assert corpus.reading.links_lost == 2 - ("👩" in found) - ("dog" in found)


class TestWithTargets:
    """Whether the decoder reads targets."""

    def test_the_first_decides(self, checkpoint: Loaded):
        for targets in (False, True):
            documents = _some(targets=targets)
            found, labelled = check_targets(checkpoint("t5"), iter(documents))
            assert labelled == targets
            assert list(found) == documents
        found, labelled = check_targets(checkpoint("t5"), [])
        assert (list(found), labelled) == ([], False)

    def test_a_target_that_the_first_lacks(self, checkpoint: Loaded):
        documents = [Document("a dog"), Document("a cat", label="ein Hund")]
        found, _ = check_targets(checkpoint("t5"), documents)
        with pytest.raises(AttnprobeError, match="'a cat' has a target, but the first text has none"):
            list(found)


def _some(*, targets: bool = False) -> list[Document]:
    return list(read_linked_rows(rows(targets=targets)))


def _spans(link: TokenLink) -> list[TokenSpan]:
    return [link.source, link.target, *link.candidates, *link.also]
