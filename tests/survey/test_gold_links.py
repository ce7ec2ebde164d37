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


class TestAnother:
    """The decoder reads targets of their own."""

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
