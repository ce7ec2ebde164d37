"""One name for what ships inside the package; what is wanted of it tells the part."""

import hashlib

import pytest

from attnprobe.corpus.sources.contrasts import ContrastColumns
from attnprobe.corpus.sources.embedded import EMBEDDED, Embedded, open_embedded
from attnprobe.corpus.sources.text import Source, open_source, read_embedded
from attnprobe.errors import AttnprobeError

WANTED = {
    Embedded.SENTENCES: {},
    Embedded.TREEBANK: {"annotated": True},
    Embedded.COREFERENCE: {"coreference": True},
    Embedded.PAIRS: {"read_rows": ContrastColumns().read},
}


@pytest.mark.parametrize("part", Embedded)
def test_each_part_has_its_documents_and_its_hash(part):
    opened = open_source(Source(EMBEDDED, **WANTED[part]))
    if part is not Embedded.PAIRS:  # which are rows to whoever reads them
        assert list(opened.documents) == list(read_embedded(part))
    content = b"".join(stream.read() for stream, _ in open_embedded(part))
    assert opened.described["name"] == EMBEDDED
    assert opened.described["sha256"] == hashlib.sha256(content).hexdigest()
    assert opened.described["bytes"] == len(content)


@pytest.mark.parametrize("part", Embedded)
def test_no_part_has_columns_or_splits(part):
    with pytest.raises(AttnprobeError, match="--text-column"):
        open_source(Source(EMBEDDED, text_column="text", **WANTED[part]))
    with pytest.raises(AttnprobeError, match="--split"):
        open_source(Source(EMBEDDED, split="test", **WANTED[part]))


@pytest.mark.parametrize("part", Embedded)
def test_only_files_of_the_part_are_read(part):
    names = [name for _, name in open_embedded(part)]
    assert names == sorted(names)
    assert all(name.endswith(part.value) for name in names)
    assert len(names) == (2 if part is Embedded.SENTENCES else 1)


def test_files_are_closed():
    streams = [stream for stream, _ in open_embedded(Embedded.SENTENCES)]
    assert all(stream.closed for stream in streams)
