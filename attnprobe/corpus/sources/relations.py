"""Which gold links are asked about, and what they are called."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attnprobe.corpus.sources.annotation import Link
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.trees import folded
from attnprobe.errors import AttnprobeError

#: So many labels are named where one is not found.
_NAMED = 12


def linked(
    documents: Iterable[Document],
    name: str,
    *,
    labels: Sequence[str] | None = None,
    fold: bool = False,
    nothing: str = "it holds no links",
) -> Iterator[Document]:
    """Keep the links that are asked for, under the names that are asked for.

    Args:
        documents: With their annotations.
        name: The source, for errors.
        labels: The labels to keep; None for all.
        fold: Whether subtypes are folded: ``nsubj:pass`` counts as ``nsubj``.
        nothing: What is wrong where there is not a single link.

    Raises:
        AttnprobeError: Where the documents end, when no link is left, or a label was not among them.
    """
    wanted = None if labels is None else set(labels)
    seen: set[str] = set()
    number = 0
    for document in documents:
        if (said := document.annotation) is None:
            yield document
            continue
        links = [_named(link, fold) for link in said.links]
        seen.update(link.label for link in links)
        if wanted is not None:
            links = [link for link in links if link.label in wanted]
        number += len(links)
        yield replace(document, annotation=replace(said, links=tuple(links)))
    if not seen:
        raise AttnprobeError(f"{name} can't be asked about: {nothing}.")
    if missing := [label for label in labels or () if label not in seen]:
        listed = ", ".join(sorted(seen)[:_NAMED]) + (", ..." if len(seen) > _NAMED else "")
        raise AttnprobeError(f"{name} has no link called {missing[0]!r}; it has {listed}.")


def _named(link: Link, fold: bool) -> Link:
    return replace(link, label=folded(link.label)) if fold else link
