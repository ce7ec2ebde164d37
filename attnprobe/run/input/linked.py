"""Documents with gold links: whether the decoder beside an encoder reads targets of its own."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from attnprobe.corpus.sources.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint


def with_targets(checkpoint: Checkpoint, documents: Iterable[Document]) -> tuple[Iterator[Document], bool]:
    """Settle whether a decoder reads the targets of documents, or the texts themselves.

    It reads targets if the first document has one; documents without one are left out then, as everywhere.

    Args:
        checkpoint: Which model reads them.
        documents: With their targets as labels.

    Returns:
        The documents, and whether their labels are targets.

    Raises:
        AttnprobeError: When a document has a target and the model has no decoder beside an encoder; and on
            the way, when one has a target that the first one lacks.
    """
    rest = iter(documents)
    first = list(islice(rest, 1))
    labelled = bool(first) and _has_target(first[0])
    if labelled and not checkpoint.decodes:
        raise _no_decoder(checkpoint)

    def checked() -> Iterator[Document]:
        for document in chain(first, rest):
            if _has_target(document) and not labelled:
                if not checkpoint.decodes:
                    raise _no_decoder(checkpoint)
                raise AttnprobeError(
                    f"The text {document.text[:60]!r} has a target, but the first text has none; give every "
                    "text a target, or none."
                )
            yield document

    return checked(), labelled


def _has_target(document: Document) -> bool:
    return isinstance(document.label, str)


def _no_decoder(checkpoint: Checkpoint) -> AttnprobeError:
    return AttnprobeError(
        f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out target, and "
        "links into it."
    )
