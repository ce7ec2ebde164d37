"""From documents to the examples of a task: what the model reads, and what it is to say of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from attnprobe.corpus.sources.annotation import Annotation, Span, Tag
from attnprobe.corpus.sources.document import Asked, Document, Tagged
from attnprobe.corpus.sources.folder import MediaFolder

Documents = Iterable[Document] | MediaFolder


def words_to_label(documents: Documents) -> Documents:
    """Give texts as their words joined by blanks, with the label of each word.

    Taggers are trained on words one by one, whatever stood between them.
    """
    return _each(documents, _of_words)


def questions(documents: Documents) -> Documents:
    """Give questions with the texts that answer them, and where."""
    return _each(documents, _of_question)


def _each(documents: Documents, made: Callable[[Document], Document]) -> Documents:
    if isinstance(documents, MediaFolder):
        return documents

    def every() -> Iterator[Document]:
        yield from map(made, documents)

    return every()


def _of_words(document: Document) -> Document:
    label = document.label
    assert isinstance(label, Tagged)
    tags, place = [], 0
    for word, tag in zip(label.words, label.tags, strict=True):
        if tag is not None:
            tags.append(Tag(Span(place, place + len(word)), tag))
        place += len(word) + 1
    text = " ".join(label.words)
    return replace(document, text=text, pair=None, label=None, annotation=Annotation(tags=tuple(tags)))


def _of_question(document: Document) -> Document:
    label = document.label
    assert isinstance(label, Asked)
    spans = (
        Span(start, start + len(answer), "pair")
        for answer, start in zip(label.answers, label.starts, strict=True)
    )
    return replace(document, pair=label.context, annotation=Annotation(answers=tuple(spans)))
