"""SQuAD's own files: articles of paragraphs with questions."""

from collections.abc import Iterator, Sequence
from typing import Any

from attnprobe.corpus.sources.gold import ANSWERS, CONTEXT, QUESTION
from attnprobe.errors import AttnprobeError

#: What names an article.
TITLE = "title"


def is_squad(items: Sequence[Any]) -> bool:
    """Tell whether an array is one of articles with paragraphs."""
    return bool(items) and all(isinstance(item, dict) and "paragraphs" in item for item in items)


def list_questions(items: Sequence[Any], name: str) -> Iterator[dict[str, Any]]:
    """Give an object for each question, with its context and answers.

    Raises:
        AttnprobeError: When an article is made otherwise.

    References:
        Rajpurkar et al. (2016), SQuAD; Rajpurkar, Jia and Liang (2018), Know what you don't know.
    """
    for article in items:
        for paragraph in _get_list(article, "paragraphs", name):
            for question in _get_list(paragraph, "qas", name):
                if not isinstance(question, dict):
                    raise AttnprobeError(f"{name} holds a question that is not a JSON object; make it one")
                yield {
                    **({TITLE: article[TITLE]} if isinstance(article.get(TITLE), str) else {}),
                    QUESTION: question.get(QUESTION),
                    CONTEXT: paragraph.get(CONTEXT),
                    ANSWERS: question.get(ANSWERS),
                }


def _get_list(holder: Any, key: str, name: str) -> list[Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        raise AttnprobeError(f"{name} holds an article without a list of {key}, which SQuAD's files have")
    return found
