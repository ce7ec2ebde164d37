"""CoNLL-U: a sentence at a time, checked against the rules of the format before it is believed."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

from attnprobe.corpus.sources.annotation import Annotation
from attnprobe.corpus.sources.document import Tagged
from attnprobe.corpus.sources.lines import blocks, brief, decoded_lines
from attnprobe.corpus.sources.trees import annotated_sentence, joined_forms, tagged_sentence
from attnprobe.errors import AttnprobeError

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
#: A line that names other columns, as CoNLL-U Plus has them.
_DECLARED = "# global.columns = "

_Token = Mapping[str, Any]
Read = TypeVar("Read")


def read_conllu(stream: BinaryIO, name: str) -> Iterator[str]:
    """Read the sentences of a CoNLL-U file: ``# text``, else the forms put together."""
    return (text for text, _ in conllu_sentences(stream, name))


def conllu_sentences(
    stream: BinaryIO, name: str, *, annotated: bool = False
) -> Iterator[tuple[str, Annotation | None]]:
    """Read the sentences of a CoNLL-U file, and with ``annotated`` their words and dependencies too.

    Raises:
        AttnprobeError: Where a sentence is not CoNLL-U: its columns, the numbers of its words, and with
            ``annotated`` their heads too.
    """

    def read(sentence: Any) -> tuple[str, Annotation | None]:
        text = sentence.metadata.get("text")
        if not annotated:
            return text or joined_forms(sentence), None
        _check_heads(sentence)
        return annotated_sentence(sentence, text)

    return _parsed(stream, name, read)


def tagged_sentences(stream: BinaryIO, name: str, column: str) -> Iterator[tuple[str, Tagged | None]]:
    """Read the sentences of a CoNLL-U file, and what a column says of each word: ``upos``, ``xpos``."""

    def read(sentence: Any) -> tuple[str, Tagged | None]:
        text = sentence.metadata.get("text") or joined_forms(sentence)
        return text, tagged_sentence(sentence, column)

    return _parsed(stream, name, read)


def _parsed(stream: BinaryIO, name: str, read: Callable[[Any], Read]) -> Iterator[Read]:
    """Make something of each sentence of a CoNLL-U file."""
    import conllu
    from conllu.exceptions import ParseException

    columns = list(COLUMNS)
    # A sentence at a time, because conllu's own exceptions do not say where they happened.
    for start, block in blocks(decoded_lines(stream, name)):
        try:
            columns = _declared(block) or columns
            _check_lines(block, columns, start)
            found = []
            for sentence in conllu.parse_incr(io.StringIO("".join(block)), fields=columns):
                _check_words(sentence)
                found.append(read(sentence))
        except (ParseException, ValueError, KeyError) as error:
            # Columns can be declared in the file, and then the ones we need can be missing.
            wrong = f"no column {error.args[0]}" if isinstance(error, KeyError) else error
            raise AttnprobeError(
                f"the sentence at line {start} of {name} is not CoNLL-U ({brief(wrong)}); mend it, "
                "or rename the file to .txt if it holds a document a line"
            ) from None
        yield from found


def _declared(block: Sequence[str]) -> list[str]:
    """Give the columns that CoNLL-U Plus declares, once for the whole file."""
    line = next((line for line in block if line.startswith(_DECLARED)), "")
    return line.removeprefix(_DECLARED).lower().split()


def _check_lines(block: Sequence[str], columns: Sequence[str], start: int) -> None:
    """Refuse lines with other columns; conllu itself fills up what is missing and drops the rest."""
    for number, line in enumerate(block, start=start):
        if line.startswith("#"):
            continue
        found = line.rstrip("\r\n").count("\t") + 1
        if found == 1:
            raise ValueError(f"line {number} has no tabs between its columns")
        if found != len(columns):
            raise ValueError(f"line {number} has {found} columns, not {len(columns)}")


def _check_words(sentence: Iterable[_Token]) -> None:
    """Refuse words that are not numbered 1, 2, 3 ..., ranges that hold no words, and words without a form."""
    words, last = 0, 0
    for token in sentence:
        if not token["form"]:
            raise ValueError(f"word {_spelled(token['id'])} has no form")
        match token["id"]:
            case int(number):
                if number != words + 1:
                    raise ValueError(f"word {number} stands where word {words + 1} should")
                words = number
            case (int(begin), "-", int(end)):
                if begin != words + 1 or end < begin or begin <= last:
                    raise ValueError(f"the range {begin}-{end} stands before word {words + 1}")
                last = end
            case (int(number), ".", _):
                if number != words:
                    raise ValueError(f"the empty node {_spelled(token['id'])} stands after word {words}")
            case other:
                raise ValueError(f"{other!r} numbers no word")
    if last > words:
        raise ValueError(f"a range ends at word {last} of {words}")


def _check_heads(sentence: Iterable[_Token]) -> None:
    """Refuse heads that are no words of the sentence, or lead in circles; none at all make no tree."""
    heads = {token["id"]: token.get("head") for token in sentence if isinstance(token["id"], int)}
    if all(head is None for head in heads.values()):
        return
    for word, head in heads.items():
        if head is None:
            raise ValueError(f"word {word} has no head, and others have one")
        if head not in heads and head != 0:
            raise ValueError(f"word {word} depends on word {head}, which is not there")
    safe = {0}
    for first in heads:
        word, path = first, []
        while word not in safe:
            if word in path:
                raise ValueError(f"the heads of word {word} lead in a circle")
            path.append(word)
            word = heads[word] or 0
        safe.update(path)


def _spelled(number: Any) -> str:
    return str(number) if isinstance(number, int) else "".join(map(str, number))
