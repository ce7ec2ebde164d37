"""The brackets of ``Entity=`` in CorefUD: where mentions begin and end."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from attnprobe.corpus.sources.lines import brief
from attnprobe.errors import AttnprobeError

#: An opening bracket with its fields, closed at once or later; or a closing bracket with its entity.
_CHUNK = re.compile(r"\([^()]+\)?|[^()]+\)")
#: The entity of a part of a mention that is not in one piece: e5[1/2].
_PART = re.compile(r"(?P<entity>.+)\[(?P<part>[0-9]{1,6})/(?P<parts>[0-9]{1,6})\]")
#: What the entity's number is called: GUM had another name for it, and numbers that are unique in a document.
_ENTITY = ("eid", "GRP")
_HEAD = "head"


@dataclass(slots=True)
class Bracketed:
    """A mention by its brackets.

    Attributes:
        entity: What it speaks of.
        line: The line that its first bracket stands in.
        parts: Of how many pieces it is made.
        head: Its head word among its words, counted from 1; None where the file does not say.
        ranges: The first and the last node of each piece.
    """

    entity: str
    line: int
    parts: int = 1
    head: int | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)


class Brackets:
    """The brackets of one document, from its first line on.

    Mentions may nest, cross each other and go on in the next sentence. A closing bracket closes the mention
    of its entity that was opened last.
    """

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        """Know the file's name, for errors, and the fields of an opening bracket.

        Args:
            name: Of the file.
            fields: As ``# global.Entity`` declares them; none where it does not.
        """
        self.fields = fields
        self._name = name
        #: By entity: mentions with an open piece, and where that begins.
        self._open: defaultdict[str, list[tuple[Bracketed, int]]] = defaultdict(list)
        #: By entity: mentions whose next piece is to come.
        self._broken: defaultdict[str, list[Bracketed]] = defaultdict(list)
        self._done: list[Bracketed] = []

    def read(self, brackets: str, node: int, line: int) -> None:
        """Read the brackets that stand at a node.

        Args:
            brackets: The value of ``Entity=``.
            node: Its place among all nodes of the document.
            line: Where it stands in the file.

        Raises:
            AttnprobeError: When they make no mentions.
        """
        chunks = _chunks(brackets)
        if not set(self.fields) & set(_ENTITY):
            raise AttnprobeError(
                f"line {line} of {self._name} has Entity=, but no line above says where the entity stands "
                "in it; write '# global.Entity = eid-etype-head-other' or the like before the first sentence."
            )
        if "".join(chunks) != brackets:
            raise self._wrong(
                line, f"Entity={brief(brackets)}, which is not made of brackets like (e1 and e1)"
            )
        for chunk in chunks:
            values = chunk.strip("()").split("-")
            if chunk.startswith("("):
                mention = self._opened(values, line)
                self._open[mention.entity].append((mention, node))
            else:
                mention = None
            if chunk.endswith(")"):
                self._close(self._entity_of(values, closing=mention is None), node, line)

    def finished(self) -> Iterator[Bracketed]:
        """Give the mentions, in the order in which they end.

        Raises:
            AttnprobeError: When one was never closed.
        """
        left = [mention for opened in self._open.values() for mention, _ in opened]
        if left:
            first = min(left, key=lambda one: one.line)
            raise self._wrong(first.line, f"a mention of {brief(first.entity)!r} that is never closed")
        broken = [mention for found in self._broken.values() for mention in found]
        if broken:
            first = min(broken, key=lambda one: one.line)
            told = f"{len(first.ranges)} of its {first.parts} parts"
            raise self._wrong(first.line, f"a mention of {brief(first.entity)!r} with only {told}")
        return iter(self._done)

    def _opened(self, values: Sequence[str], line: int) -> Bracketed:
        """Begin a mention, or go on with one that is in pieces."""
        spelled = self._entity_of(values)
        entity, part, parts = _parted(spelled)
        if not entity or not 1 <= part <= parts:
            raise self._wrong(line, f"a mention of {brief(spelled)!r}, which names no entity")
        if part > 1:
            broken = self._broken[entity]
            for place in reversed(range(len(broken))):
                if (len(broken[place].ranges), broken[place].parts) == (part - 1, parts):
                    return broken.pop(place)
            raise self._wrong(line, f"part {part} of a mention of {brief(entity)!r} without part {part - 1}")
        head = dict(zip(self.fields, values, strict=False)).get(_HEAD, "")
        if head and not re.fullmatch(r"[0-9]{1,9}", head):
            raise self._wrong(line, f"{brief(head)!r} for the head of a mention, which is no number")
        return Bracketed(entity, line, parts, int(head) if head else None)

    def _close(self, spelled: str, node: int, line: int) -> None:
        entity, part, parts = _parted(spelled)
        opened = self._open[entity]
        for place in reversed(range(len(opened))):
            mention, begin = opened[place]
            if (len(mention.ranges) + 1, mention.parts) == (part, parts):
                break
        else:
            raise self._wrong(line, f"the end of a mention of {brief(spelled)!r} that is not open")
        del opened[place]
        mention.ranges.append((begin, node))
        (self._done if len(mention.ranges) == mention.parts else self._broken[entity]).append(mention)

    def _entity_of(self, values: Sequence[str], *, closing: bool = False) -> str:
        """Find the entity among the fields; a closing bracket has it alone, or fields as the opening has."""
        if closing and len(values) == 1:
            return values[0]
        place = next(place for place, name in enumerate(self.fields) if name in _ENTITY)
        return values[place] if place < len(values) else ""

    def _wrong(self, line: int, what: str) -> AttnprobeError:
        return AttnprobeError(f"line {line} of {self._name} has {what}; mend the brackets of Entity= there.")


def _chunks(brackets: str) -> list[str]:
    """Split brackets from the first on, as far as there are any."""
    chunks, place = [], 0
    while found := _CHUNK.match(brackets, place):
        chunks.append(found[0])
        place = found.end()
    return chunks


def _parted(entity: str) -> tuple[str, int, int]:
    """Read e5[1/2] as part 1 of 2 of e5; an entity alone is whole."""
    found = _PART.fullmatch(entity)
    return (found["entity"], int(found["part"]), int(found["parts"])) if found else (entity, 1, 1)
