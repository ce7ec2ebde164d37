"""Attention between words that two tokenizers both see, whatever tokens they make of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnprobe.attention.annotation import TokenAnnotation, TokenSpan
from attnprobe.corpus.sources.annotation import Annotation, Where
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.words import worded

#: A stretch of words, by the tokens of either model.
Unit = tuple[TokenSpan, TokenSpan]


def with_words(documents: Iterable[Document]) -> Iterator[Document]:
    """Let words be known by their numbers, and documents by theirs, whatever a tokenizer makes of them."""
    for number, document in enumerate(documents):
        texts: dict[Where, str] = {"text": document.text}
        if document.pair is not None:
            texts["pair"] = document.pair
        words = worded(replace(document.annotation or Annotation(), links=(), tags=(), answers=None), texts)
        yield replace(document, annotation=replace(words, numbered=True, number=number))


def shared_units(first: TokenAnnotation, second: TokenAnnotation) -> list[Unit]:
    """Give the words that two sequences of one document both hold; those that share a token count as one.

    >>> one = TokenAnnotation(numbered=(TokenSpan(1, 3), TokenSpan(3, 4), TokenSpan(4, 5)))
    >>> two = TokenAnnotation(numbered=(TokenSpan(1, 2), TokenSpan(2, 3), TokenSpan(2, 3)))
    >>> [(a.start, a.stop, b.start, b.stop) for a, b in shared_units(one, two)]
    [(1, 3, 1, 2), (3, 5, 2, 3)]
    """
    found: list[Unit] = []
    for one, other in zip(first.numbered, second.numbered, strict=True):
        if one is None or other is None:
            continue
        if found and (one.start < found[-1][0].stop or other.start < found[-1][1].stop):
            last = found.pop()
            found.append((_over(last[0], one), _over(last[1], other)))
        else:
            found.append((one, other))
    return found


def between_words(maps: Tensor, words: list[TokenSpan]) -> Tensor:
    """Add up attention between tokens to attention between words.

    What goes to a word is the sum over its tokens, what goes from it their mean (Clark et al. 2019, section
    4.1). What goes to no word, such as a special token, is one more key, so that rows still sum to 1.

    Args:
        maps: (head, query, key).
        words: The tokens of each.

    Returns:
        (head, word, word + 1)
    """
    place = torch.cat([torch.full((word.stop - word.start,), n) for n, word in enumerate(words)])
    token = torch.cat([torch.arange(word.start, word.stop) for word in words])
    member = torch.zeros(len(words), maps.shape[-1], dtype=maps.dtype)
    member[place, token] = 1.0
    member = member.to(maps.device)
    rows = (member / member.sum(1, keepdim=True)) @ maps
    found = rows @ member.T
    rest = (rows.sum(-1, keepdim=True) - found.sum(-1, keepdim=True)).clamp_min(0)
    return torch.cat([found, rest], -1)


def _over(one: TokenSpan, other: TokenSpan) -> TokenSpan:
    return TokenSpan(min(one.start, other.start), max(one.stop, other.stop))
