"""Attention to words of each part of speech: by a loop, and a head that is planted."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_patterns import HEADS, KINDS, draw, lay_out

from attnprobe.attention.annotation import TokenAnnotation, TokenSpan
from attnprobe.statistics.parts_of_speech import PART_OF_SPEECH, PARTS, name_column

TEXT = "[wwwwwwwww|"
#: Words of one token or two; one has a tag of another scheme, one none.
WORDS = [
    (1, 2, "DET"),
    (2, 4, "NOUN"),
    (4, 5, "VERB"),
    (5, 6, "DET"),
    (6, 8, "NOUN"),
    (8, 9, "VBZ"),
    (9, 10, ""),
]


def annotate(layout, kind):
    words = tuple(TokenSpan(start, stop) for start, stop, _ in WORDS)
    parts = tuple(part for *_, part in WORDS)
    said = {"keys": words, "key_parts_of_speech": parts} if kind == "cross" else {}
    if kind == "cross":  # those of the decoder are not asked
        own = TokenAnnotation((TokenSpan(0, 3),), parts_of_speech=("NUM",), **said)
    else:
        own = TokenAnnotation(words, parts_of_speech=parts)
    return replace(layout, annotations=(own,))


def find(block, cuts=(0, 3, 4)):
    """Ask in parts, and add up as the engine does."""
    length = block.probabilities.shape[2]
    parts = [
        replace(block, probabilities=block.probabilities[:, :, start:stop], offset=start)
        for start, stop in zip(cuts, (*cuts[1:], length), strict=True)
    ]
    whole = torch.stack([PART_OF_SPEECH(part) for part in parts]).sum(0)
    return PART_OF_SPEECH.of_sequences(whole, block.layout)[0].numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_by_definition(kind):
    layout = annotate(lay_out(TEXT, kind), kind)
    block = draw(layout)
    found = find(block)
    for number, part in enumerate(PARTS):
        tokens = [at for start, stop, name in WORDS if name == part for at in range(start, stop)]
        values = []
        for query, row in enumerate(block.probabilities[0].numpy().transpose(1, 0, 2)):
            seen = query + 1 if kind == "decoder" else len(TEXT)
            some = [at for at in tokens if at < seen]
            if 0 < len(some) < seen:
                uniform = len(some) / seen
                values.append((row[:, some].sum(-1) - uniform) / (1 - uniform))
        expected = np.mean(values, 0) if values else np.full(HEADS, np.nan)
        np.testing.assert_allclose(found[:, number], expected, atol=1e-6, err_msg=part)


def test_limits():
    layout = annotate(lay_out(TEXT, "encoder"), "encoder")
    rows = torch.ones(1, HEADS, len(TEXT), len(TEXT)) / len(TEXT)
    nouns = [2, 3, 6, 7]
    rows[0, 1] = 0
    rows[0, 1, :, nouns] = 0.25
    found = find(replace(draw(layout), probabilities=rows))
    det, noun = (PARTS.index(part) for part in ("DET", "NOUN"))
    np.testing.assert_allclose(found[0, [det, noun]], 0, atol=1e-6)
    np.testing.assert_allclose(found[1, noun], 1, atol=1e-6)
    assert found[1, det] < 0


def test_nothing_is_said_without_a_treebank():
    assert np.isnan(find(draw(lay_out(TEXT, "encoder")))).all()
    assert name_column("NOUN") == "part_of_speech_excess_noun"
    assert "PUNCT" not in PARTS  # which is a delimiter
