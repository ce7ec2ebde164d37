"""JSON: an object a line, or an array of objects, SQuAD's articles among them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from attnprobe.corpus.formats import Row, Table, TableFormat, make_table
from attnprobe.corpus.sources.gold import ANSWERS, CONTEXT, QUESTION
from attnprobe.corpus.sources.streams import WHOLE, decode_lines, peek_lines, shorten
from attnprobe.errors import DataError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source


def read_jsonl(stream: BinaryIO, source: "Source") -> Table:
    return parse_jsonl(decode_lines(stream, source.spec), source.spec)


def parse_jsonl(lines: Iterable[str], name: str) -> Table:
    """Make a table of JSON Lines; blank lines are passed over."""
    return make_table(_json_rows(lines, name))


def _json_rows(lines: Iterable[str], name: str) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"line {number}"
            try:
                value = _parse_json(line)
            except ValueError as error:
                raise DataError(
                    f"{where} of {name} is not JSON ({shorten(error)}); JSON Lines has an object a line"
                ) from None
            yield _json_row(value, where, name)


def read_json(stream: BinaryIO, source: "Source") -> Table:
    """Read an array of objects or strings, or an object that holds one such array; or SQuAD's articles."""
    name = source.spec
    lines = list(decode_lines(stream, name, longest=WHOLE))
    if not any(map(str.strip, lines)):
        return Table([], iter(()))
    try:
        value = _parse_json("".join(lines))
    except ValueError as error:
        # Many a .json file on the Hugging Face Hub is JSON Lines: an object, then "extra data".
        if starts_with_object(peek_lines(lines)[0]):
            return parse_jsonl(lines, name)
        where = f"line {error.lineno} of " if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(
            f"{where}{name} is not JSON ({shorten(error)}); give an array of objects or strings"
        ) from None
    array = _find_array(value, name)
    what, items = ("question", list_questions(array, name)) if is_squad(array) else ("item", iter(array))
    numbered = enumerate(items, start=1)
    return make_table(_json_row(item, f"{what} {number}", name) for number, item in numbered)


def _find_array(value: object, name: str) -> list[Any]:
    arrays = [value]
    if isinstance(value, dict):
        if isinstance(value.get("text"), str) and "links" in value:
            return [value]  # one text with its gold links
        arrays = [item for item in value.values() if isinstance(item, list)]
    if len(arrays) == 1 and isinstance(arrays[0], list):
        return arrays[0]
    raise DataError(
        f"{name} holds neither an array nor an object with just one array in it; "
        "give an array of objects or strings, or rename JSON Lines to .jsonl"
    )


def _json_row(value: object, where: str, name: str) -> Row:
    if isinstance(value, dict):
        return Row(where, value)
    if isinstance(value, str):
        return Row(where, {"text": value})
    raise DataError(f"{where} of {name} is neither a JSON object nor a string; make it one")


def starts_with_object(line: str) -> bool:
    try:
        return isinstance(_parse_json(line), dict)
    except ValueError:
        return False


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:  # Python's own advice is for programmers
        raise ValueError("a number of thousands of digits") from None


#: What names an article.
TITLE = "title"


def is_squad(items: Sequence[Any]) -> bool:
    """Tell whether an array is one of articles with paragraphs."""
    return bool(items) and all(isinstance(item, dict) and "paragraphs" in item for item in items)


def list_questions(items: Sequence[Any], name: str) -> Iterator[dict[str, Any]]:
    """Give an object for each question, with its context and answers.

    References:
        Rajpurkar et al. (2016), SQuAD; Rajpurkar, Jia and Liang (2018), Know what you don't know.
    """
    for article in items:
        for paragraph in _get_list(article, "paragraphs", name):
            for question in _get_list(paragraph, "qas", name):
                if not isinstance(question, dict):
                    raise DataError(f"{name} holds a question that is not a JSON object; make it one")
                yield {
                    **({TITLE: article[TITLE]} if isinstance(article.get(TITLE), str) else {}),
                    QUESTION: question.get(QUESTION),
                    CONTEXT: paragraph.get(CONTEXT),
                    ANSWERS: question.get(ANSWERS),
                }


def _get_list(holder: Any, key: str, name: str) -> list[Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        raise DataError(f"{name} holds an article without a list of {key}, which SQuAD's files have")
    return found


FORMATS = [
    TableFormat((".jsonl", ".ndjson"), read_jsonl, links=True),
    TableFormat((".json",), read_json, links=True),
]
