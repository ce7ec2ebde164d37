"""Examples that have a label, of text or of files; the others are counted, and said."""

from collections.abc import Collection, Iterable, Iterator

from attnprobe.corpus.sources.document import Document, Gold
from attnprobe.corpus.sources.folder import MediaFolder
from attnprobe.errors import AttnprobeError


class Labelled:
    """The examples that have a label, or a target text, which is kept where a label is."""

    def __init__(
        self,
        documents: Iterable[Document] | MediaFolder,
        what: str = "label",
        *,
        kinds: Collection[Gold] | None = None,
    ) -> None:
        """Look at documents or files; ``what`` they must have is for the user to read, any kind or some."""
        self._documents, self._what = documents, what
        self._kinds = kinds
        self._skipped = 0

    @property
    def examples(self) -> Iterable[Document] | MediaFolder:
        """Those that have one.

        Raises:
            AttnprobeError: When there is none; of documents, at their end.
        """
        if not isinstance(self._documents, MediaFolder):
            return self._some(self._documents)
        found = self._documents.labelled
        self._skipped = len(self._documents.items) - len(found.items)
        if not found.items:
            raise AttnprobeError(f"None of the {self._skipped:,} files has a {self._what}.")
        return found

    def _some(self, documents: Iterable[Document]) -> Iterator[Document]:
        found = False
        for document in documents:
            kind = Gold.of(document.label)
            if not (kind if self._kinds is None else kind in self._kinds):
                self._skipped += 1
                continue
            found = True
            yield document
        if not found:
            raise AttnprobeError(f"None of the {self._skipped:,} examples has a {self._what}.")

    def remarks(self) -> list[str]:
        """Say how many were left out, once all were read."""
        noun = "example is" if self._skipped == 1 else "examples are"
        return [f"{self._skipped:,} {noun} left out for want of a {self._what}."] if self._skipped else []
