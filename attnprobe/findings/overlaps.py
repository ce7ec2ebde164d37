"""What several jobs read twice: texts and files, which is refused, and single documents, which is said."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.findings.parts import Parts, PartsRead
from attnprobe.sums.documents import Overlap, Sketch

#: Fewer documents than this, compared, don't tell whether two corpora overlap.
_FEW = 10
#: Of so many pairs of tables, each has a sentence of its own; of more, their number is said.
_NAMED = 3


@dataclass(frozen=True)
class Content:
    """What a job has read.

    Attributes:
        name: What its table is called in a sentence.
        texts: Its texts, by their SHA-256.
        files: The files of these, each by its SHA-256 and the columns that were read.
        sketch: Which documents they have.
        parts: The parts of a corpus that it has read, if it has read nothing else.
    """

    name: str
    texts: frozenset[str]
    files: frozenset[str]
    sketch: Sketch
    parts: Parts | None = None


def check_overlaps(contents: Sequence[Content], parts: PartsRead | None = None) -> list[str]:
    """Note how many documents count twice; refuse a text or a file that does, and a part of which all do.

    ``parts`` are those of corpora that were read in parts. Parts of one corpus have no document in common,
    though two documents may say the same.
    """
    contents = list(_join_parts(contents))
    _refuse_twice(contents, parts or PartsRead())
    doubled, unknown = list[str](), list[str]()
    for one, other in list_pairs_to_compare([content.sketch for content in contents]):
        ours, theirs = contents[one], contents[other]
        overlap = ours.sketch.compare(theirs.sketch)
        refuse_whole(overlap, ours.name, theirs.name)
        if note := describe_overlap(overlap, ours.name, theirs.name):
            (unknown if is_unknown(overlap) else doubled).append(note)
    return [
        *_shorten(doubled, "{} more pairs of tables have documents in common, which count twice."),
        *_shorten(unknown, "Nor is it known of {} more pairs of tables."),
    ]


def _join_parts(contents: Iterable[Content]) -> Iterator[Content]:
    """Put those together that hold parts of one corpus."""
    corpora: dict[tuple[str, ...], list[Content]] = {}
    for content in contents:
        if content.parts is None:
            yield content
        else:
            corpora.setdefault(content.parts.corpus, []).append(content)
    for some in corpora.values():
        first, *others = some
        if others and first.parts is not None:
            texts = frozenset[str]().union(*(one.texts for one in some))
            sketch = reduce(add, (one.sketch for one in some))
            first = replace(first, name=f"the parts of {first.parts.name}", texts=texts, sketch=sketch)
        yield first


def _refuse_twice(contents: Iterable[Content], parts: PartsRead) -> None:
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


def list_pairs_to_compare(sketches: Sequence[Sketch]) -> list[tuple[int, int]]:
    """List the pairs of sketches that have a name in common, or too few that can be compared to tell.

    All other pairs have nothing in common, as far as can be told. A thousand sketches are compared at once:
    names that occur twice are found by sorting all of them.
    """
    found = {tuple(pair) for pair in _find_shared(sketches)}
    ends = np.array([_find_end(sketch) for sketch in sketches])
    # (sketch, sketch) how many names of the first are no larger than the last that the second knows of.
    known = np.array([np.searchsorted(sketch.names, ends, side="right") for sketch in sketches])
    known = np.minimum(known, known.diagonal()[:, None])  # nor than its own last
    exact = np.array([sketch.whole for sketch in sketches])
    unknown = (np.minimum(known, known.T) < _FEW) & ~(exact[:, None] & exact)
    found |= {(int(one), int(other)) for one, other in np.argwhere(np.triu(unknown, 1))}
    return sorted(found)


def _find_end(sketch: Sketch) -> int:
    """Give the largest name up to which a sketch knows all documents."""
    return np.iinfo(np.int64).max if sketch.whole else int(sketch.names[-1])


def _find_shared(sketches: Sequence[Sketch]) -> Iterator[NDArray[np.int64]]:
    names = np.concatenate([sketch.names for sketch in sketches])
    owners = np.repeat(np.arange(len(sketches)), [len(sketch.names) for sketch in sketches])
    order = np.argsort(names, kind="stable")  # owners of one name in their order
    names, owners = names[order], owners[order]
    _, first, count = np.unique(names, return_index=True, return_counts=True)
    pairs = [np.stack(np.triu_indices(number, 1), 1) for number in range(2, 1 + int(count.max(initial=0)))]
    for at, number in zip(first[count > 1], count[count > 1], strict=True):
        yield from owners[at + pairs[number - 2]]


def is_unknown(overlap: Overlap) -> bool:
    """Tell whether too few documents can be compared to say how many two corpora have in common."""
    return not overlap.exact and overlap.compared < _FEW


def refuse_whole(overlap: Overlap, one: str, other: str) -> None:
    """Refuse two tables if all documents of one are in the other."""
    if not overlap.every:
        return
    which = "every document of one of them is"
    if not overlap.exact:
        which = f"all {overlap.compared:,} documents of one of them that can be compared are"
    raise AttnprobeError(
        f"{one} and {other} can't be added up: {which} in the other too, and would count twice."
    )


def describe_overlap(overlap: Overlap, one: str, other: str) -> str:
    """Say how many documents count twice, or that it is not known; nothing where none does."""
    if is_unknown(overlap):
        known = f"only {overlap.compared} can be compared" if overlap.compared else "none can be compared"
        both = f", of which {overlap.seen} {'is' if overlap.seen == 1 else 'are'}" if overlap.seen else ""
        return (
            f"Whether documents are both in {one} and in {other}, and count twice, is not known: "
            f"{known}{both}."
        )
    if not overlap.number:
        return ""
    number = f"{overlap.number:,.0f}" if overlap.exact else f"About {overlap.number:,.0f}"
    are = "document is" if round(overlap.number) == 1 else "documents are"
    return f"{number} {are} both in {one} and in {other}, and count twice."


def _shorten(notes: list[str], rest: str) -> list[str]:
    if len(notes) <= _NAMED:
        return notes
    return [*notes[:_NAMED], rest.format(f"{len(notes) - _NAMED:,}")]
