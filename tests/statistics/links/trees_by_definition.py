"""Trees of heads, sentence by sentence, from eager maps, scipy and a textbook: slow, and independent."""

import re
from dataclasses import dataclass
from itertools import pairwise

import networkx
import numpy as np
import torch
from gold import find_words
from links_by_definition import eager_maps, run_beside, words_by_tokens
from scipy.sparse.csgraph import minimum_spanning_tree


def tree_sentences(texts, seed=0):
    """Give (text, spans of words, links of a tree): every word but one depends on another, marks as punct."""
    draw = np.random.default_rng(seed)
    sentences = []
    for text, spans in find_words(texts):
        order = draw.permutation(len(spans)).tolist()
        links = []
        for number, word in enumerate(order[1:], start=1):
            head = order[int(draw.integers(number))]
            mark = not re.match(r"\w", text[spans[word][0]])
            label = str(draw.choice(["punct", "punct:end"] if mark else ["obj", "nsubj:pass", "punctual"]))
            links.append((word, head, label))
        sentences.append((text, spans, links))
    return sentences


def decoder_maps(model, ids):
    """Attention of a decoder beside an encoder, which reads the same one place later."""
    return torch.stack([maps[0] for maps in run_beside(model, ids).decoder_attentions]).double().numpy()


@dataclass
class Counts:
    """What is counted of each sentence that asks something; a map of a layer's mean has one head.

    Attributes:
        gold, chain: (sentence,) gold edges; those of the chain.
        hits: (sentence, layer, head) those of each head.
        words, left, right, to_root: (sentence,) words with a gold head that are no root; those whose head
            simple trees have right.
        to_head: (sentence, layer, head) words whose head a head's directed tree has right.
    """

    gold: np.ndarray
    chain: np.ndarray
    hits: np.ndarray
    words: np.ndarray
    left: np.ndarray
    right: np.ndarray
    to_root: np.ndarray
    to_head: np.ndarray


def find_circle(heads):
    """Give the words of a circle of (word,) heads; the root is its own."""
    for word in range(len(heads)):
        path = [word]
        while heads[path[-1]] not in path:
            path.append(heads[path[-1]])
        again = heads[path[-1]]
        if heads[again] != again:
            return sorted(path[path.index(again) :])
    return []


def span(weight, root):
    """Give (word,) the heads of the heaviest tree over weights [word, head], as Edmonds puts it."""
    weight = weight.copy()
    np.fill_diagonal(weight, -np.inf)
    heads = weight.argmax(1)
    heads[root] = root
    circle = find_circle(heads)
    if not circle:
        return heads
    # The circle takes the place of its first word; what enters it costs a head in it.
    rest = [word for word in range(len(weight)) if word == circle[0] or word not in circle]
    here = rest.index(circle[0])
    into = weight[circle] - weight[circle, heads[circle]][:, None]
    small = weight[np.ix_(rest, rest)]
    small[here] = into[:, rest].max(0)
    small[:, here] = weight[np.ix_(rest, circle)].max(1)
    small_heads = span(small, rest.index(root))
    whole = heads.copy()
    for place, head in enumerate(small_heads):
        if place not in {here, rest.index(root)}:
            of = rest[place]
            whole[of] = circle[weight[of, circle].argmax()] if head == here else rest[head]
    entered = rest[small_heads[here]]
    whole[circle[into[:, entered].argmax()]] = entered
    return whole


def directed(weight, root):
    return {(word, int(head)) for word, head in enumerate(span(weight, root)) if word != root}


def trees(model, tokenizer, sentences, longest=None, *, maps_of=eager_maps):
    """Count what trees have of the gold in each sentence that asks something.

    Args:
        model: With eager attention.
        tokenizer: A fast one.
        sentences: A list of (text, spans of words, links (source word, target word, label)).
        longest: Sentences of more tokens are left out.
        maps_of: Reads the maps of a sentence; those of a decoder are of tokens one place later.
    """
    rows = []
    for text, spans, links in sentences:
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        if longest is not None and len(encoded["input_ids"]) > longest:
            continue
        special = encoded["special_tokens_mask"]
        offsets = [(0, 0) if s else o for s, o in zip(special, encoded["offset_mapping"], strict=True)]
        tokens = words_by_tokens(spans, offsets)
        tokens_of_links = [
            (tokens[source], tokens[target], label.split(":")[0] == "punct")
            for source, target, label in links
            if tokens[source] and tokens[target] and tokens[source] != tokens[target]
        ]
        words = {source for source, _, mark in tokens_of_links if not mark}
        marks = {source for source, _, mark in tokens_of_links if mark} - words
        left = sorted(set(tokens) - marks - {()})
        gold = {
            frozenset((source, target))
            for source, target, mark in tokens_of_links
            if not mark and {source, target} <= set(left)
        }
        if not gold:
            continue
        maps = maps_of(model, encoded["input_ids"])
        places = [[token + (maps_of is decoder_maps) for token in word] for word in left]
        words = np.array([[maps[..., a, :][..., b].sum(-1).mean(-1) for b in places] for a in places])
        attention = np.moveaxis(words, (0, 1), (-2, -1))
        weight = attention + attention.swapaxes(-1, -2)
        arcs = {
            (left.index(source), left.index(target))
            for source, target, mark in tokens_of_links
            if not mark and {source, target} <= set(left)
        }
        graph = networkx.DiGraph((head, word) for word, head in arcs)
        tops = [word for word in sorted(graph) if not graph.in_degree(word)]
        root = max(tops, key=lambda word: len(networkx.descendants(graph, word)))
        held, to_head = (np.zeros(maps.shape[:2], int) for _ in range(2))
        for head in np.ndindex(held.shape):
            # Edges without weight are no edges to scipy, and it wants the lightest tree.
            tree = minimum_spanning_tree(np.triu(weight[head].max() + 1 - weight[head], 1)).tocoo()
            assert tree.nnz == len(left) - 1
            held[head] = sum(frozenset((left[a], left[b])) in gold for a, b in zip(*tree.coords, strict=True))
            to_head[head] = len(directed(attention[head], root) & arcs)
        size = range(len(left))
        simple = (
            {(word, size[(word + 1)] if word + 1 < len(left) else root) for word in size},
            {(word, word - 1 if word else root) for word in size},
            {(word, word + 1 if word < root else word - 1) for word in size},
        )
        rows.append(
            (
                len(gold),
                sum(frozenset(pair) in gold for pair in pairwise(left)),
                held,
                len({word for word, _ in arcs}),
                *(len({arc for arc in tree if arc[0] != root} & arcs) for tree in simple),
                to_head,
            )
        )
    return Counts(*map(np.array, zip(*rows, strict=True)))
