"""What heads find, sentence by sentence, from eager maps and loops in numpy: slow, and independent."""

from collections import Counter

import numpy as np
import torch

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


def eager_maps(model, ids):
    """Attention of one sequence, (layer, head, query, key)."""
    with torch.no_grad():
        maps = model(torch.tensor([ids]), output_attentions=True).attentions
    return torch.stack([one[0] for one in maps]).double().numpy()


def counted(model, tokenizer, sentences, *, causal=False):
    """Count hits: (label, direction, layer, head), links and hits of fixed offsets by (label, direction).

    Args:
        model: With eager attention.
        tokenizer: A fast one.
        sentences: A list of (text, spans of words, links (source word, target word, label)).
        causal: Whether only earlier answers are asked for.
    """
    hits, links, offsets_hit = Counter(), Counter(), Counter()
    for text, spans, gold in sentences:
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        special = encoded["special_tokens_mask"]
        offsets = [(0, 0) if s else o for s, o in zip(special, encoded["offset_mapping"], strict=True)]
        by_word = words_by_tokens(spans, offsets)
        distinct = sorted({(w[0], w[-1]) for w in by_word if w})
        place = [None if not w else distinct.index((w[0], w[-1])) for w in by_word]
        maps = eager_maps(model, encoded["input_ids"])
        to_word = np.stack([maps[..., a : b + 1].sum(-1) for a, b in distinct], -1)
        word = np.stack([to_word[..., a : b + 1, :].mean(-2) for a, b in distinct], -2)
        np.einsum("...ii->...i", word)[:] = -1
        choice = word.argmax(-1)  # (layer, head, word)
        for source, target, label in gold:
            s, t = place[source], place[target]
            if s is None or t is None or s == t:
                continue
            for direction, asker, answer in (("forward", s, t), ("backward", t, s)):
                if causal and distinct[answer][1] > distinct[asker][1]:
                    continue
                # Links of words that are not neighbours count again, by themselves.
                named = [label, f"{label}|far"] if abs(asker - answer) > 1 else [label]
                links.update((name, direction) for name in named)
                choices = [
                    w for w in range(len(distinct))
                    if w != asker and (not causal or distinct[w][1] <= distinct[asker][1])
                ]  # fmt: skip
                for offset in OFFSETS:  # the nearest word to where it aims, of two the earlier
                    chosen = min(choices, key=lambda w: (abs(w - asker - offset), w))
                    for name in named:
                        offsets_hit[name, direction, offset] += offset != 0 and chosen == answer
                for layer, head in np.argwhere(choice[..., asker] == answer):
                    hits.update((name, direction, layer, head) for name in named)
    return hits, links, offsets_hit


def counted_beside(model, tokenizer, sentences, start):
    """The same for a decoder that reads the text itself, one token later, beside the encoder.

    The decoder predicts a token where it reads the one before ("output"), and reads it later ("input").

    Returns:
        For "encoder", "decoder" and "cross": hits (label, direction, position, layer, head), and links.
    """
    hits, links = {}, {}
    for kind in ("encoder", "decoder", "cross"):
        hits[kind], links[kind] = Counter(), Counter()
    for text, spans, gold in sentences:
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
        offsets = [(0, 0) if s else o for s, o in zip(special, encoded["offset_mapping"], strict=True)]
        by_word = words_by_tokens(spans, offsets)
        distinct = sorted({(w[0], w[-1]) for w in by_word if w})
        place = [None if not w else distinct.index((w[0], w[-1])) for w in by_word]
        with torch.no_grad():
            given = model(
                torch.tensor([ids]),
                decoder_input_ids=torch.tensor([[start, *ids[:-1]]]),
                output_attentions=True,
            )
        maps = {
            "encoder": given.encoder_attentions,
            "decoder": given.decoder_attentions,
            "cross": given.cross_attentions,
        }
        for kind, layers in maps.items():
            whole = torch.stack([one[0] for one in layers]).double().numpy()
            asking = (
                distinct if kind == "encoder" else [(a + 1, b + 1) for a, b in distinct if b + 1 < len(ids)]
            )
            answering = asking if kind == "decoder" else distinct
            to_word = np.stack([whole[..., a : b + 1].sum(-1) for a, b in answering], -1)
            for position, before in (("", 0),) if kind == "encoder" else (("output", 1), ("input", 0)):
                word = [to_word[..., a - before : b + 1 - before, :].mean(-2) for a, b in asking]
                choice = np.stack(word, -2)
                for at in range(len(asking)):
                    choice[..., at, at] = -1
                choice = choice.argmax(-1)
                for source, target, label in gold:
                    s, t = place[source], place[target]
                    if s is None or t is None or s == t:
                        continue
                    for direction, asker, answer in (("forward", s, t), ("backward", t, s)):
                        if asker >= len(asking) or answer >= len(answering):
                            continue
                        if kind == "decoder" and asking[answer][1] > asking[asker][1]:
                            continue
                        named = [label, f"{label}|far"] if abs(asker - answer) > 1 else [label]
                        links[kind].update((name, direction, position) for name in named)
                        for layer, head in np.argwhere(choice[..., asker] == answer):
                            hits[kind].update((name, direction, position, layer, head) for name in named)
    return hits, links
