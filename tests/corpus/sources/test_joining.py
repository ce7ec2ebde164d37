"""Several sources as one."""

import pytest

from attnprobe.corpus.groups import join_sources
from attnprobe.corpus.open import open_source
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError

WORD = "1\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"


def trees(tmp_path, name, *sentences):
    """Write a treebank; a sentence that begins with * begins a document too."""
    path = tmp_path / name
    lines = ("# newdoc\n" * one.startswith("*") + WORD.format(one.strip("*")) for one in sentences)
    path.write_text("".join(lines))
    return open_source(Source(str(path), annotated=True))


def test_documents_of_several_files_stay_apart(tmp_path):
    parts = [
        trees(tmp_path, "a.conllu", "before", "*one", "one", "*two"),
        trees(tmp_path, "b.conllu", "before", "*three", "three"),
        trees(tmp_path, "c.conllu", "nowhere"),
        trees(tmp_path, "d.conllu", "*four"),
    ]
    described = [part.described for part in parts]
    both = join_sources(parts)
    found = list(both.documents)
    assert [one.text for one in found if one.part_of is None] == ["before", "before", "nowhere"]
    groups = {
        group: [one.text for one in found if one.part_of == group] for group in {one.part_of for one in found}
    }
    assert sorted(groups.values()) == [
        ["before"] * 2 + ["nowhere"],
        ["four"],
        ["one"] * 2,
        ["three"] * 2,
        ["two"],
    ]
    assert both.name == "a.conllu + b.conllu + c.conllu + d.conllu"
    assert both.described == {"name": both.name, "sources": described}


def test_the_same_file_twice(tmp_path):
    with pytest.raises(AttnprobeError, match=r"a\.conllu is the same file named twice"):
        join_sources([trees(tmp_path, "a.conllu", "one"), trees(tmp_path, "a.conllu", "one")])
    with pytest.raises(AttnprobeError, match=r"b\.conllu and a\.conllu are the same file"):
        join_sources([trees(tmp_path, "a.conllu", "one"), trees(tmp_path, "b.conllu", "one")])
