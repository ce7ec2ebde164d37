"""Trees of heads, sentence by sentence, from eager maps and scipy: slow, and independent."""

import re
from itertools import pairwise

import numpy as np
import torch
from links_by_definition import eager_maps, words_by_tokens
from scipy.sparse.csgraph import minimum_spanning_tree


def tree_sentences(texts, seed=0):
    """Give (text, spans of words, links of a tree): every word but one depends on another, marks as punct."""
    draw = np.random.default_rng(seed)
    found = []
    for text in texts:
        if not isinstance(text, str):
            continue
        spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]+", text)]
        order = draw.permutation(len(spans)).tolist()
        links = []
        for number, word in enumerate(order[1:], start=1):
            head = order[int(draw.integers(number))]
            mark = not re.match(r"\w", text[spans[word][0]])
            label = str(draw.choice(["punct", "punct:end"] if mark else ["obj", "nsubj:pass", "punctual"]))
            links.append((word, head, label))
        found.append((text, spans, links))
    return found


def decoder_maps(model, ids):
    """Attention of a decoder beside an encoder, which reads the same one place later."""
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        found = model(
            torch.tensor([ids]), decoder_input_ids=torch.tensor([[start, *ids[:-1]]]), output_attentions=True
        )
    return torch.stack([one[0] for one in found.decoder_attentions]).double().numpy()


def trees(model, tokenizer, sentences, longest=None, *, maps_of=eager_maps):
    """Count, for each sentence that asks something, gold edges, those of the chain, and those of each head.

    Args:
        model: With eager attention.
        tokenizer: A fast one.
        sentences: A list of (text, spans of words, links (source word, target word, label)).
        longest: Sentences of more tokens are left out.
        maps_of: Reads the maps of a sentence; those of a decoder are of tokens one place later.

    Returns:
        (sentence,), (sentence,) and (sentence, layer, head).
    """
    golds, chains, hits = [], [], []
    for text, spans, links in sentences:
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        if longest is not None and len(encoded["input_ids"]) > longest:
            continue
        special = encoded["special_tokens_mask"]
        offsets = [(0, 0) if s else o for s, o in zip(special, encoded["offset_mapping"], strict=True)]
        tokens = words_by_tokens(spans, offsets)
        found = [
            (tokens[source], tokens[target], label.split(":")[0] == "punct")
            for source, target, label in links
            if tokens[source] and tokens[target] and tokens[source] != tokens[target]
        ]
        words = {source for source, _, mark in found if not mark}
        marks = {source for source, _, mark in found if mark} - words
        left = sorted(set(tokens) - marks - {()})
        gold = {
            frozenset((source, target))
            for source, target, mark in found
            if not mark and {source, target} <= set(left)
        }
        if not gold:
            continue
        maps = maps_of(model, encoded["input_ids"])
        places = [[token + (maps_of is decoder_maps) for token in word] for word in left]
        words = np.array([[maps[..., a, :][..., b].sum(-1).mean(-1) for b in places] for a in places])
        weight = np.moveaxis(words + words.swapaxes(0, 1), (0, 1), (-2, -1))
        held = np.zeros(maps.shape[:2], int)
        for head in np.ndindex(held.shape):
            # Edges without weight are no edges to scipy, and it wants the lightest tree.
            tree = minimum_spanning_tree(np.triu(weight[head].max() + 1 - weight[head], 1)).tocoo()
            assert tree.nnz == len(left) - 1
            held[head] = sum(frozenset((left[a], left[b])) in gold for a, b in zip(*tree.coords, strict=True))
        golds.append(len(gold))
        chains.append(sum(frozenset(pair) in gold for pair in pairwise(left)))
        hits.append(held)
    return np.array(golds), np.array(chains), np.array(hits)
