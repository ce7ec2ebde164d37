"""Which gold links are asked about, and what they are called."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from attnprobe.corpus.sources.annotation import SEVERAL, Link
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
    seen: set[str] = set()
    for document in documents:
        if (said := document.annotation) is None:
            yield document
            continue
        links = [_named(link) for link in said.links] if fold else said.links
        seen.update(*(link.label.split(SEVERAL) for link in links))
        if labels is not None:
            links = [kept for link in links if (kept := _asked(link, labels)) is not None]
        yield replace(document, annotation=replace(said, links=tuple(links)))
    if not seen:
        raise AttnprobeError(f"{name} can't be asked about: {nothing}.")
    if missing := [label for label in labels or () if label not in seen]:
        named = sorted(seen - {""})
        listed = ", ".join(named[:_NAMED]) + (", ..." if len(named) > _NAMED else "")
        subtype = fold and folded(missing[0]) in seen
        hint = ", and --subtypes tells their subtypes apart" if subtype else ""
        there = listed or "only links without a label"
        raise AttnprobeError(f"{name} has no link called {missing[0]!r}; it has {there}{hint}.")


def _named(link: Link) -> Link:
    return replace(link, label=SEVERAL.join(map(folded, link.label.split(SEVERAL))))


def _asked(link: Link, labels: Sequence[str]) -> Link | None:
    """Leave a link the labels that are asked for; None where it has none of them."""
    left = [label for label in link.label.split(SEVERAL) if label in labels]
    return replace(link, label=SEVERAL.join(left)) if left else None
