"""What ships inside the package: sentences, dependencies, snippets with coreference, pairs.

All of it is attnprobe's own, under the license of the package.
"""

from collections.abc import Iterator
from enum import StrEnum
from importlib import resources
from typing import BinaryIO, cast

#: Names the package's own text where a path could stand.
EMBEDDED = "embedded"


class Embedded(StrEnum):
    """A part of what ships inside the package: the extension of its files."""

    SENTENCES = ".txt"
    TREEBANK = ".conllu"  # the first sentences of each file of sentences, annotated by hand after UD v2
    COREFERENCE = ".tsv"  # snippets with a pronoun and two names, in the columns of GAP
    PAIRS = ".jsonl"  # sentences with a subject in the singular and in the plural, and a mask for the verb


def open_embedded(part: Embedded) -> Iterator[tuple[BinaryIO, str]]:
    """Open the files of a part, one after the other in the order of their names, with those names.

    Each file is closed when the next one is asked for.
    """
    folder = resources.files("attnprobe.corpus.sources") / "sentences"
    found = (file for file in folder.iterdir() if file.name.endswith(part.value))
    for file in sorted(found, key=lambda file: file.name):
        with file.open("rb") as stream:
            yield cast(BinaryIO, stream), file.name
