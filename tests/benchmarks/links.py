"""What gold links cost, in forward passes of the same batches."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np
from figures import Figure
from ratios import as_figure, paired_ratios
from shapes import BERT_BASE, MINILM, random_batch

from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.batch import Batch
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.links import SYNTAX, make_control
from attnprobe.statistics.registry import census_statistics, select_statistics
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.trees import TREES
from attnprobe.survey.measure import open_evaluator

RELATIONS = [f"relation {number}" for number in range(35)]
#: Lengths in tokens of the sentences of a treebank (English EWT, cut by WordPiece): nine quantiles.
TREEBANK = (5, 8, 11, 14, 17, 20, 25, 31, 43)

#: Parts of speech and how often they are, in the same treebank.
PARTS = ["NOUN", "PUNCT", "VERB", "PRON", "ADP", "DET", "PROPN", "ADJ", "AUX", "ADV", "CCONJ", "PART", "NUM"]
SHARES = [0.17, 0.13, 0.11, 0.09, 0.09, 0.08, 0.07, 0.07, 0.06, 0.05, 0.03, 0.03, 0.02]


def treebank_like(batch: Batch, seed: int = 0) -> Batch:
    """Give sequences words of one or two tokens, a part of speech each, and each but one a head near it."""
    random = np.random.default_rng(seed)
    return replace(batch, annotations=tuple(_annotated(batch.length, random) for _ in range(len(batch))))


def _annotated(length: int, random: np.random.Generator) -> TokenAnnotation:
    words, at = [], 1
    while at < length - 1:
        stop = min(length - 1, at + (2 if random.random() < 0.15 else 1))
        words.append(TokenSpan(at, stop))
        at = stop
    links = []
    for word in range(1, len(words)):
        head = int(np.clip(word + random.choice([-3, -2, -1, 1, 2, 3]), 0, len(words) - 1))
        if head != word:
            links.append(TokenLink(words[word], words[head], RELATIONS[random.integers(len(RELATIONS))]))
    forms = random.integers(0, 2 * len(words), len(words)).tolist()
    parts = random.choice(PARTS, len(words), p=SHARES).tolist()
    return TokenAnnotation(tuple(words), tuple(links), forms=tuple(forms), parts_of_speech=tuple(parts))


def link_costs(*, quick: bool) -> Iterator[Figure]:
    """Compare gold links, trees and roles with the bare forward pass.

    Roles take a pass for the census and the links, and one with the tokens shuffled. The random tokens they
    are read off too are few, and left out here.
    """
    census = [SYNTAX, *census_statistics()]
    shuffled = [one for one in select_statistics("positional", controls=True) if one.control == "shuffled"]
    sentences = [random_batch(640 // length, length) for length in TREEBANK]
    for name, shape, batches, trees, syntax, control in (
        ("MiniLM-L6, sentences of a treebank", MINILM, sentences, (1.8, 1.4), (1.25, 1.15), (1.4, 1.2)),
        ("BERT-base, 128 tokens", BERT_BASE, [random_batch(8, 128)], (1.3, 1.15), (1.10, 1.05), (1.2, 1.1)),
        ("BERT-base, 512 tokens", BERT_BASE, [random_batch(2, 512)], (), (), ()),
    ):
        annotated = [treebank_like(batch) for batch in batches]
        checkpoint, architecture = shape.checkpoint(), shape.architecture()

        def bare(checkpoint: Checkpoint = checkpoint, batches: list[Batch] = batches) -> None:
            for batch in batches:
                checkpoint.forward(batch.inputs)

        for command, passes, limits in (
            ("syntax", [[SYNTAX]], syntax),
            ("syntax --control links", [[SYNTAX, make_control(SYNTAX)]], control),
            ("syntax --trees", [[TREES]], trees),
            ("roles", [census, shuffled], (3.2, 2.6)),
        ):
            work = partial(_measure, checkpoint, architecture, annotated, passes)
            ratios = paired_ratios(bare, work, 5 if quick else 15)
            yield as_figure(f"{command}, {name}", ratios, *limits)


def _measure(
    checkpoint: Checkpoint, architecture: Architecture, batches: list[Batch], passes: list[list[Statistic]]
) -> None:
    for statistics in passes:
        with open_evaluator(checkpoint, architecture, statistics) as evaluator:
            # As read back from the store, so that what it takes to unpack is part of the price.
            read = [
                replace(batch, annotations=pickle.loads(pickle.dumps(batch.annotations))) for batch in batches
            ]
            reduce(add, map(evaluator.measurement, read))
