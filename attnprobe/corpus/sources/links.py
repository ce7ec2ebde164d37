"""Words and gold links of a row of JSON lines, by the characters of its texts."""

from collections.abc import Mapping
from typing import Any, get_args

from attnprobe.corpus.sources.annotation import Annotation, Link, Span, Where
from attnprobe.errors import AttnprobeError

WORDS, LINKS = "words", "links"


def annotation_of(cells: Mapping[str, Any], where: str, texts: Mapping[Where, str]) -> Annotation | None:
    """Read ``words`` and ``links`` of a row.

    Words are ``[start, end]``; links are objects with ``source``, ``target``, ``label`` and, where only some
    spans count as answers, ``candidates``. Characters count from 0 in Unicode code points, ends exclusive.
    ``source_in`` and ``target_in`` say in which text a span lies: ``text`` (the default) or ``pair``.

    Args:
        cells: The row.
        where: Where it stands, for errors.
        texts: The texts of the row.

    Returns:
        Its annotation, or None where it has neither words nor links.

    Raises:
        AttnprobeError: When a span is no span of its text.
    """
    if cells.get(WORDS) is None and cells.get(LINKS) is None:
        return None
    words, links = (cells.get(name) or [] for name in (WORDS, LINKS))
    if not isinstance(words, list) or not isinstance(links, list):
        raise AttnprobeError(f"{where}: words and links must be lists.")
    spans = tuple(_span(word, "text", where, texts) for word in words)
    return Annotation(spans, tuple(_link(link, where, texts) for link in links))


def _link(link: Any, where: str, texts: Mapping[Where, str]) -> Link:
    if not isinstance(link, dict) or not {"source", "target"} <= link.keys():
        raise AttnprobeError(f"{where}: a link must be an object with source and target, not {link!r:.60}.")
    begins: Where = _where(link.get("source_in", "text"), where)
    ends: Where = _where(link.get("target_in", "text"), where)
    candidates = link.get("candidates") or []
    if not isinstance(candidates, list):
        raise AttnprobeError(f"{where}: the candidates of a link must be a list of spans.")
    return Link(
        _span(link["source"], begins, where, texts),
        _span(link["target"], ends, where, texts),
        str(link.get("label", "")),
        tuple(_span(one, ends, where, texts) for one in candidates),
    )


def _where(name: Any, where: str) -> Where:
    if name not in get_args(Where):
        raise AttnprobeError(f"{where}: a span lies in text or pair, not in {name!r:.60}.")
    return "pair" if name == "pair" else "text"


def _span(ends: Any, text: Where, where: str, texts: Mapping[Where, str]) -> Span:
    length = len(texts.get(text, ""))
    match ends:
        case [int(start), int(stop)] if 0 <= start < stop <= length and not isinstance(stop, bool):
            return Span(start, stop, text)
    raise AttnprobeError(f"{where}: {ends!r:.60} is no span of its {text}, which has {length} characters.")
