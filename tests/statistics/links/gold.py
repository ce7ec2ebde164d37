"""Gold links to try things on: words of the texts of the tests, joined at random."""

import re

import numpy as np

from attnprobe.corpus.document import Annotation, Document, Link, Span

LABELS = ("subject", "object", "rare")


def gold_sentences(texts, seed=0):
    """Give (text, spans of words, links (source word, target word, label)) of single texts."""
    random = np.random.default_rng(seed)
    sentences = []
    for text in texts:
        if not isinstance(text, str):
            continue
        spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]+", text)]
        links = [
            (int(source), int(target), str(random.choice(LABELS, p=[0.6, 0.3, 0.1])))
            for source in range(len(spans))
            if (target := random.integers(len(spans))) != source
        ]
        sentences.append((text, spans, links))
    return sentences


def documents(sentences):
    """Give the same as documents, as a reader of treebanks does."""
    for text, spans, links in sentences:
        words = [Span(*span) for span in spans]
        yield Document(
            text,
            annotation=Annotation(
                tuple(words),
                tuple(Link(words[source], words[target], label) for source, target, label in links),
            ),
        )
