"""What several jobs read twice: a text or a file, which is refused."""

from collections.abc import Iterable
from dataclasses import dataclass

from attnprobe.errors import AttnprobeError
from attnprobe.findings.parts import PartsRead


@dataclass(frozen=True)
class Content:
    """What a job has read.

    Attributes:
        name: What its table is called in a sentence.
        texts: Its texts, by their SHA-256.
        files: The files of these, each by its SHA-256 and the columns that were read.
    """

    name: str
    texts: frozenset[str]
    files: frozenset[str]


def refuse_twice(contents: Iterable[Content], parts: PartsRead) -> None:
    """Refuse a text or a file that two jobs have read; ``parts`` are those of corpora read in parts.

    Parts of one corpus have no document in common, though two documents may say the same.
    """
    seen: dict[str, str] = {}
    for content in contents:
        for text in content.texts:
            if text in seen:
                raise AttnprobeError(
                    f"{content.name} is about a text that is there already; it would count twice."
                )
        for file in content.files:
            if file in seen:
                raise AttnprobeError(
                    f"{seen[file]} and {content.name} read the same file, which would count twice; give each "
                    "job a file of its own, or a part of it (--part)."
                )
            if reader := parts.find_reader(file):
                table, part = reader
                raise AttnprobeError(
                    f"{table} is {part}, and {content.name} holds all of it, which would count twice."
                )
        seen |= dict.fromkeys((*content.texts, *content.files), content.name)
