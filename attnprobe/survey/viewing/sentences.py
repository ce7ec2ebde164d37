"""A few sentences of a user's own data, to show heads on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median_low
from typing import Any

from attnprobe.corpus.sources.document import Document

#: So many sentences, of so many tokens at most, among so many of the first documents.
SENTENCES, TOKENS, AMONG = 3, 24, 1000
#: A shorter one shows nothing, and a text of more characters is longer than wanted.
_FEWEST, _CHARACTERS = 5, 400
#: What a sentence ends with (Unicode's Sentence_Terminal, or an ellipsis), and quotes or brackets behind it.
_END = r"[\p{Sentence_Terminal}\u2026][\p{Pe}\p{Pf}\p{Pi}\"'`\s]*\Z"


@dataclass(frozen=True)
class Chosen:
    """The sentences.

    Attributes:
        documents: The texts.
        said: How they were chosen.
    """

    documents: Sequence[Document]
    said: str


def chosen(documents: Iterable[Document], tokenizer: Any) -> Chosen:
    """Choose sentences of usual length, the same ones every time.

    Among the first documents, those of at most 24 tokens count; where three of them or more end as a sentence
    does, only those, so that headings and lists don't stand in for sentences. Nearest to the median of their
    lengths, the earliest come first; no text comes twice. Where there are too few short ones, the beginnings
    of the first documents stand in.

    Args:
        documents: The texts.
        tokenizer: Of the checkpoint.
    """
    first = [replace(one, label=None) for one in islice(documents, AMONG) if one.text.strip()]
    distinct = list({(one.text, one.pair): one for one in first}.values())
    short = [(one, length) for one in distinct if (length := _length(one, tokenizer)) is not None]
    if len(short) < SENTENCES:
        number = min(SENTENCES, len(distinct))
        which, each = f"The first {number} texts", " of each"
        if number == 1:
            which, each = "The only text", ""
        return Chosen(distinct[:SENTENCES], f"{which} of the data, up to {TOKENS} tokens{each}.")
    ended = [(one, length) for one, length in short if _ends(one)]
    such = f"have {_FEWEST} to {TOKENS} tokens"
    if len(ended) >= SENTENCES:
        short, such = ended, f"{such} and end with a full stop, a question mark or the like"
    middle = median_low(length for _, length in short)
    order = sorted(range(len(short)), key=lambda place: (abs(short[place][1] - middle), place))
    found = [short[place][0] for place in sorted(order[:SENTENCES])]
    return Chosen(
        found,
        f"These are {SENTENCES} of the first {len(first):,} texts of the data. Of those that {such}, they "
        f"are the first ones whose length is nearest to the median, {middle} tokens.",
    )


def _ends(document: Document) -> bool:
    """Tell whether a text ends as a sentence does, in any script; of two, whether both do."""
    import regex  # which knows the property; re does not

    texts = [document.text] if document.pair is None else [document.text, document.pair]
    return all(regex.search(_END, text) for text in texts)


def _length(document: Document, tokenizer: Any) -> int | None:
    """Count the tokens of a short text; None for one that is too long or too short."""
    texts = [document.text] if document.pair is None else [document.text, document.pair]
    if sum(map(len, texts)) > _CHARACTERS:
        return None
    length = len(tokenizer(*texts, verbose=False)["input_ids"])
    return length if _FEWEST <= length <= TOKENS else None
