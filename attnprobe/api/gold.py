"""Gold links, however a program holds them: files, several files, rows, documents."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from attnprobe.api.keywords import TextKeywords, given
from attnprobe.api.texts import Texts, check_standard_input, opened
from attnprobe.corpus.sources.embedded import EMBEDDED
from attnprobe.corpus.sources.links import linked_documents
from attnprobe.corpus.sources.opening import joined
from attnprobe.corpus.sources.text import OpenSource, Source
from attnprobe.errors import AttnprobeError


class Gold(Enum):
    """What a command reads: how a source is opened, and what is wrong where it holds no link."""

    TREEBANK = "treebank"
    COREFERENCE = "coreference"
    LINKS = "links"

    @property
    def nothing(self) -> str:
        """What is wrong with a source without a single link."""
        return {
            Gold.TREEBANK: "it holds no dependencies; give CoNLL-U whose words have heads",
            Gold.COREFERENCE: "it holds no mention with an antecedent and another mention to choose from",
            Gold.LINKS: "it holds no links",
        }[self]

    def source(self, spec: str) -> Source:
        """Say how a file is read."""
        return Source(spec, annotated=self is not Gold.COREFERENCE, coreference=self is Gold.COREFERENCE)


def opened_gold(texts: Texts, gold: Gold, options: Mapping[str, Any]) -> OpenSource:
    """Open files with gold links, or take documents that have some.

    Args:
        texts: The path of a file, several of them, a ``Source``, or documents; None for what ships inside the
            package.
        gold: What is read.
        options: The keywords of the function.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.
    """
    named = given(options, TextKeywords)
    files = _files(EMBEDDED if texts is None else texts)
    if files is None:
        name = options.get("name") or "texts"
        return OpenSource(linked_documents(_rows(texts)), name, {"name": name})
    check_standard_input(files)
    sources = [
        opened(one if isinstance(one, Source) else gold.source(str(one)), named=named) for one in files
    ]
    return joined(sources)


def _files(texts: Texts) -> Sequence[str | Path | Source] | None:
    """List the files that are named, if files are."""
    if isinstance(texts, str | Path | Source):
        return [texts]
    if (
        isinstance(texts, list | tuple)
        and texts
        and all(isinstance(one, str | Path | Source) for one in texts)
    ):
        return texts
    return None


def _rows(texts: Any) -> Iterable[Any]:
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise AttnprobeError(
            f"Give the path of a file, several, or dicts with text and links, not {type(texts).__name__}."
        )
    return texts
