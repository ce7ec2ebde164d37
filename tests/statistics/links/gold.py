"""Gold links to try things on: words of the texts of the tests, joined at random; and tables about them."""

import re

import numpy as np

from attnprobe.corpus.document import Annotation, Document, Link, Span
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

LABELS = ("subject", "object", "rare")


def find_words(texts):
    """Give each single text, and the spans of its words."""
    for text in texts:
        if isinstance(text, str):
            yield text, [match.span() for match in re.finditer(r"\w+|[^\w\s]+", text)]


def gold_sentences(texts, seed=0):
    """Give (text, spans of words, links (source word, target word, label)) of single texts."""
    random = np.random.default_rng(seed)
    sentences = []
    for text, spans in find_words(texts):
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


def survey(checkpoint, sentences, statistics, tabulation, request=(), **options):
    """Measure statistics of gold links in sentences, for one table; ``request`` is what a user asked for."""
    corpus = CorpusRequest(documents(sentences), statistics, CorpusOptions(**options))
    table = TableRequest([corpus], "gold", {"asked": dict(request)}, tabulation)
    (run,) = survey_corpora(checkpoint, [table], progress=SilentProgress())
    return run
