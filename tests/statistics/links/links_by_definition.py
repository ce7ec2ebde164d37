"""What heads find, sentence by sentence, from eager maps and loops in numpy: slow, and independent."""

from collections import Counter
from itertools import product

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

OFFSETS = range(-10, 11)


def words_by_tokens(spans, offsets):
    """Tokens of each span of characters; a token belongs to a word if they share a character."""
    return [
        tuple(t for t, (a, b) in enumerate(offsets) if b > a and a < stop and b > start)
        for start, stop in spans
    ]


def spans(text):
    """Give the first character of each word, and the one behind its last."""
    ends = np.cumsum([len(word) + 1 for word in text.split()]) - 1
    return [[int(end) - len(word), int(end)] for end, word in zip(ends, text.split(), strict=True)]


def tokens_of(tokenizer, text):
    """Give the tokens of each word, from the first to behind the last."""
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    return [(tokens[0], tokens[-1] + 1) for tokens in words_by_tokens(spans(text), offsets)]


def load_eagerly(folder):
    """Load a model with eager attention, and its tokenizer."""
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype="float32").eval()
    return model, AutoTokenizer.from_pretrained(folder)


def run_beside(model, ids, target=None):
    """Run an encoder, and a decoder that reads a target, or the text itself, one token later."""
    read = [model.config.decoder_start_token_id, *(target or ids)[:-1]]
    with torch.no_grad():
        return model(torch.tensor([ids]), decoder_input_ids=torch.tensor([read]), output_attentions=True)


def eager_maps(model, ids):
    """Attention of one sequence, (layer, head, query, key)."""
    with torch.no_grad():
        maps = model(torch.tensor([ids]), output_attentions=True).attentions
    return torch.stack([one[0] for one in maps]).double().numpy()


def read_words(tokenizer, text, spans):
    """Give ids, the first and last token of each distinct word, and which of these each span is, or None."""
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    special = encoded["special_tokens_mask"]
    offsets = [(0, 0) if s else o for s, o in zip(special, encoded["offset_mapping"], strict=True)]
    tokens = words_by_tokens(spans, offsets)
    distinct = sorted({(word[0], word[-1]) for word in tokens if word})
    return encoded["input_ids"], distinct, [distinct.index((w[0], w[-1])) if w else None for w in tokens]


def read_maps(model, ids, kind):
    """Give the maps of each kind of attention, (layer, head, query, key)."""
    if not model.config.is_encoder_decoder:
        return {kind: eager_maps(model, ids)}
    given = run_beside(model, ids)
    layers = {kind: given[f"{kind}_attentions"] for kind in ("encoder", "decoder", "cross")}
    return {kind: torch.stack([maps[0] for maps in of]).double().numpy() for kind, of in layers.items()}


def count_links(model, tokenizer, sentences, kind="encoder"):
    """Count links, and right answers of heads and of fixed offsets.

    A decoder beside an encoder reads the text itself one token later. It predicts a token where it reads the
    one before ("output"), and reads it later ("input").

    Args:
        model: With eager attention.
        tokenizer: A fast one.
        sentences: A list of (text, spans of words, links (source word, target word, label)).
        kind: That of a model with one kind of attention; in a decoder, only earlier answers are asked for.

    Returns:
        By kind: links by label, direction and position; of these, right answers by layer and head; and by
        offset. Links of words that are not neighbours count again, as LABEL|far.
    """
    counts = {}
    for text, spans, gold in sentences:
        ids, distinct, place = read_words(tokenizer, text, spans)
        for of, maps in read_maps(model, ids, kind).items():
            links, hits, offsets = counts.setdefault(of, (Counter(), Counter(), Counter()))
            asking, positions = distinct, {"": 0}
            if model.config.is_encoder_decoder and of != "encoder":
                asking = [(a + 1, b + 1) for a, b in distinct if b + 1 < len(ids)]
                positions = {"output": 1, "input": 0}
            answering = distinct if of == "cross" else asking
            to_word = np.stack([maps[..., a : b + 1].sum(-1) for a, b in answering], -1)
            for (position, before), (source, target, label) in product(positions.items(), gold):
                s, t = place[source], place[target]
                for direction, asker, answer in (("forward", s, t), ("backward", t, s)):
                    if s is None or t is None or s == t or asker >= len(asking):
                        continue
                    first, last = asking[asker]
                    seen = [
                        word
                        for word, (_, end) in enumerate(answering)
                        if word != asker and (of != "decoder" or end <= last)
                    ]
                    if answer not in seen:
                        continue
                    mass = to_word[..., first - before : last + 1 - before, :].mean(-2)[..., seen]
                    right = np.argwhere(mass.argmax(-1) == seen.index(answer)).tolist()
                    for name in [label, f"{label}|far"] if abs(asker - answer) > 1 else [label]:
                        key = name, direction, position
                        links[key] += 1
                        hits.update((*key, *head) for head in right)
                        for offset in OFFSETS:  # the nearest word to where it aims, of two the earlier
                            chosen = min(seen, key=lambda word: (abs(word - asker - offset), word))
                            offsets[*key, offset] += offset != 0 and chosen == answer
    return counts
