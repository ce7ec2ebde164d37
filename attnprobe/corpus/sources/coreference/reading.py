"""Which reader takes a file of coreference: by its extension, and by what its first line looks like."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from attnprobe.corpus.sources.coreference.corefud import read_corefud
from attnprobe.corpus.sources.coreference.gap import read_gap
from attnprobe.corpus.sources.coreference.winobias import read_winobias
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.streams import peek_lines
from attnprobe.corpus.sources.treebank import looks_like_conllu
from attnprobe.errors import AttnprobeError

Reader = Callable[[Iterable[str], str], Iterator[Document]]

#: Readers by extension. WinoBias is also spread under names such as pro_stereotyped_type1.txt.dev.
READERS: dict[str, Reader] = {".conllu": read_corefud, ".tsv": read_gap, ".txt": read_winobias}
_PARTS = (".dev", ".test", ".train")


def read_coreference(lines: Iterable[str], name: str | PurePath) -> Iterator[Document]:
    """Read documents with a link for every mention that has an antecedent.

    Args:
        lines: Of a file of CorefUD, GAP or WinoBias, or of standard input.
        name: The path of the file, or what errors call it. Without an extension, the first line decides.

    Raises:
        AttnprobeError: When the lines are not in the format that the extension names.
    """
    reader = READERS.get(check_extension(name) or ".txt", read_winobias)
    if reader is read_winobias:
        first, lines = peek_lines(lines)
        if looks_like_conllu(first):
            reader = read_corefud
        elif "\t" in first:
            reader = read_gap
    return reader(lines, str(name))


def check_extension(name: str | PurePath) -> str | None:
    """Give the extension that names the reader, .gz set aside; None where there is no extension.

    Raises:
        AttnprobeError: When no reader has it.
    """
    path = PurePath(name)
    for aside in (".gz",), _PARTS:
        path = path.with_suffix("") if path.suffix.lower() in aside else path
    extension = path.suffix.lower()
    if extension and extension not in READERS:
        raise AttnprobeError(
            f"{name} has the extension {extension}; coreference reads CorefUD (.conllu), GAP (.tsv) and "
            "WinoBias (.txt), each also with .gz. attnprobe links reads links of your own from JSON lines."
        )
    return extension or None
