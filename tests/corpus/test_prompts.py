"""A prompt before a text: every window begins with it, and what is said of the text stays where it is."""

from itertools import pairwise

import pytest

from attnprobe.corpus.document import Annotation, Document, Link
from attnprobe.corpus.links import find_words
from attnprobe.corpus.tokens import SequenceReader

TEXT = "the river bank was slow , unlikely kindness of dogs ran — quickly by the house"
WORDS = find_words(TEXT)
LINKS = tuple(Link(one, other, "next") for one, other in pairwise(WORDS))


@pytest.fixture(params=["bert", "roberta", "t5"])
def tokenizer(request, tiny):
    return tiny(request.param)[1]


def spell(tokenizer, sequence, spans):
    return [tokenizer.decode(sequence.ids[one.start : one.stop]).strip() for one in spans]


def spell_links(tokenizer, sequence):
    ends = [(link.source, link.target) for link in sequence.annotation.links]
    return [tuple(spell(tokenizer, sequence, pair)) for pair in ends]


@pytest.mark.parametrize("prompt", ["the red house by ", "stop:"])
class TestPrompts:
    def test_words_and_links(self, tokenizer, prompt):
        document = Document(TEXT, annotation=Annotation(WORDS, LINKS))
        (plain,) = SequenceReader(tokenizer, 100).read([document])
        (prompted,) = SequenceReader(tokenizer, 100, prompts={"": prompt}).read([document])
        assert prompted.ids == tokenizer(prompt + TEXT)["input_ids"]
        assert prompted.name == plain.name  # of the text, whatever stands before it
        expected, spelled = (spell(tokenizer, one, one.annotation.words) for one in (plain, prompted))
        assert spelled[1:] == expected[1:]  # the first may be one token with the end of the prompt
        assert len(spelled) == len(WORDS)
        assert spell_links(tokenizer, prompted)[1:] == spell_links(tokenizer, plain)[1:]

    def test_windows(self, tokenizer, prompt):
        room = 3
        bare = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        framed = len(tokenizer("a")["input_ids"]) - len(tokenizer("a", add_special_tokens=False)["input_ids"])
        reader = SequenceReader(tokenizer, len(bare) + framed + room, prompts={"": prompt})
        sequences = list(reader.read([Document(TEXT, annotation=Annotation(WORDS, LINKS))]))
        before = len(reader.frame.before)
        whole = tokenizer(prompt + TEXT, add_special_tokens=False)["input_ids"]
        same = sum(1 for one, other in zip(whole, bare, strict=False) if one == other)
        assert all(one.ids[before : before + same] == whole[:same] for one in sequences)
        texts = [one.ids[before + same : len(one.ids) - len(reader.frame.after)] for one in sequences]
        assert [token for text in texts for token in text] == whole[same:]
        words = [word for one in sequences for word in spell(tokenizer, one, one.annotation.words)]
        assert set(words) <= {tokenizer.decode(tokenizer.encode(word, add_special_tokens=False)).strip()
                              for word in TEXT.split()}  # fmt: skip
        assert len(words) > 3
        (first,) = SequenceReader(tokenizer, reader.max_length, truncate=True, prompts={"": prompt}).read(
            [Document(TEXT)]
        )
        cut = tokenizer(prompt + TEXT, truncation=True, max_length=reader.max_length)["input_ids"]
        assert first.ids == sequences[0].ids == cut
