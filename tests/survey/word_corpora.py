"""Questions about words with maps that a test draws, for probes."""

import numpy as np
import torch

from attnprobe.survey.word_maps import LAST_CODE, AskedCorpus, WordQuestions, encode


def make_batch(maps, right, documents, rules=None, label="link", candidates=None):
    """Make a batch of sentences.

    Args:
        maps: For each sentence, attention (head, word, word).
        right: For each sentence, of each word the words that are right; none where it is not asked.
        documents: The document of each sentence.
        rules: For each sentence, (question, rule) right answers of rules.
        label: What all links are called.
        candidates: For each sentence, of each word the words that may be the answer; all others by default.
    """
    attention, present, hits, document, heads = [], [], [], [], []
    most = max(attention_of.shape[1] for attention_of in maps) - 1
    for at, (attention_of, answers) in enumerate(zip(maps, right, strict=True)):
        for i, right_words in enumerate(answers):
            if not len(right_words):
                continue
            among = (
                [j for j in range(attention_of.shape[1]) if j != i]
                if candidates is None
                else list(candidates[at][i])
            )
            none = most - len(among)
            both = np.concatenate([attention_of[:, i, among], attention_of[:, among, i]])
            attention.append(np.pad(both.T, ((0, none), (0, 0))))
            present.append([True] * len(among) + [False] * none)
            hits.append([j in right_words for j in among] + [False] * none)
            document.append(documents[at])
            heads.append([among[best] in right_words for best in both.argmax(1)])
    number = len(hits)
    every = np.arange(number)
    return WordQuestions(
        encode(torch.from_numpy(np.array(attention))).numpy(), np.array(present), np.array(hits),
        np.array(document), np.array(heads),
        np.zeros((number, 1), bool) if rules is None else np.concatenate(rules),
        np.zeros(number), np.concatenate([every, every]), np.array(["all"] * number + [label] * number),
        np.zeros(3, np.int64),
    )  # fmt: skip


def draw_maps(draw, heads, words):
    """Draw attention (head, word, word) whose rows add up to 1."""
    return draw.dirichlet(np.full(words, 0.7), (heads, words))


def draw_corpus(seed=0, sentences=60, heads=3, words=6, answer=None, batches=2):
    """Draw sentences, each a document; ``answer(maps, i, draw)`` gives the right word, or it is drawn."""
    draw = np.random.default_rng(seed)
    made = []
    for part in range(batches):
        maps = [draw_maps(draw, heads, words) for _ in range(sentences // batches)]
        right = [
            [[pick(words_of, i, draw) if answer is None else answer(words_of, i, draw)] for i in range(words)]
            for words_of in maps
        ]
        names = 1000 + part * len(maps) + np.arange(len(maps))
        made.append(make_batch(maps, right, names))
    return AskedCorpus(tuple(made))


def pick(maps, i, draw):
    """Pick another word at random."""
    return int(draw.choice([j for j in range(maps.shape[1]) if j != i]))


def decode(codes):
    """Give the attention that codes stand for."""
    return np.square(codes / LAST_CODE)
