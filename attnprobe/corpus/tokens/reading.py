"""What happened to documents on their way to tokens: cut, truncated, skipped, links that were lost."""

from collections.abc import Iterable
from dataclasses import dataclass

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.sources.document import Annotation
from attnprobe.corpus.tokens.annotation import involves_target


@dataclass
class Reading:
    """What happened to the documents on the way, for the record and for the user.

    Attributes:
        documents: Documents read, each part of a wider one by itself, such as a sentence.
        windows: Windows that documents longer than the limit were cut into.
        cut: Documents that were cut into windows.
        truncated: Documents that lost their end.
        empty: Documents without a single token.
        links: Gold links of the documents.
        links_lost: Those of which no sequence holds both ends, each in tokens of its own.
        links_unasked: Those that name candidates in what a decoder reads, for a word that the encoder reads.
        spelled: Documents whose text spells out a special token, which the tokenizer then makes of it.
        spelled_token: The first of these tokens.
        words: Words that have a label.
        words_lost: Those without a token, or behind the last one.
        unanswered: Questions that were left out, since no answer is among the tokens.
    """

    documents: int = 0
    windows: int = 0
    cut: int = 0
    truncated: int = 0
    empty: int = 0
    links: int = 0
    links_lost: int = 0
    links_unasked: int = 0
    spelled: int = 0
    spelled_token: str = ""
    words: int = 0
    words_lost: int = 0
    unanswered: int = 0

    def count_links(self, annotation: Annotation, found: Iterable[TokenAnnotation]) -> None:
        """Count the links of a document, and those that its sequences don't hold.

        Links with an end in what a decoder beside an encoder reads are looked for when that is read.
        """
        self.links += len(annotation.links)
        here = sum(not involves_target(link) for link in annotation.links)
        self.links_lost += here - sum(len(one.links) for one in found)
