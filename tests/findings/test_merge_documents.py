"""What several jobs count twice, and halves and blocks that are the same in all of them."""

from pathlib import Path

import numpy as np
import pytest
from test_parts import assert_same_numbers

import attnprobe
from attnprobe.errors import AttnprobeError

#: Documents of two or three sentences, "who verb place" with the verb as their root.
SENTENCES = [
    (who, verb, place)
    for who in ("dog", "parcel", "miller")
    for verb in ("came", "rang", "slept", "fell")
    for place in ("late", "early", "here", "there", "again")
]


def treebank(path: Path, documents: range) -> Path:
    """Write some of the documents."""
    blocks = []
    for document in documents:
        for place in range(2 + document % 2):
            who, verb, where = SENTENCES[(7 * document + place) % len(SENTENCES)]
            head = f"# newdoc id = {document}\n" if not place else ""
            words = [("The", 2, "det"), (who, 3, "nsubj"), (verb, 0, "root"), (where, 3, "advmod")]
            rows = (
                f"{number}\t{form}\t_\t_\t_\t_\t{to}\t{label}\t_\t_"
                for number, (form, to, label) in enumerate(words, 1)
            )
            blocks.append(head + "\n".join(rows))
    path.write_text("\n\n".join(blocks) + "\n\n")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    parts = {"whole": range(24), "first": range(9), "second": range(9, 24), "across": range(5, 15)}
    return {name: str(treebank(folder / f"{name}.conllu", part)) for name, part in parts.items()}


@pytest.mark.parametrize(
    "ask",
    [
        lambda file: attnprobe.syntax("demo", file, min_links=5, control="links"),
        lambda file: attnprobe.mixing("demo", file),
        lambda file: attnprobe.mixing("demo", file, by="layer"),
        lambda file: attnprobe.mixing("demo", file, by="pair"),
        lambda file: attnprobe.entropy("demo", file, weights="both"),
        lambda file: attnprobe.roles("demo", file),
        lambda file: attnprobe.rank("demo", file),
        lambda file: attnprobe.positional("demo", file, control=True),
    ],
    ids=["syntax", "mixing", "mixing-layer", "mixing-pair", "entropy", "roles", "rank", "control"],
)
def test_parts_are_the_whole(files, ask):
    """Halves of documents, blocks of the jackknife and groups do not depend on where a document stands."""
    whole = ask(files["whole"])
    both = attnprobe.merge([ask(files["second"]), ask(files["first"])])
    if "role" not in whole.data:  # whose notes say what is rare, which is counted in each part
        assert both.notes == whole.notes
    assert_same_numbers(both, whole)


def test_one_document_has_no_error(tmp_path):
    """Its sentences are no sample of documents."""
    file = str(treebank(tmp_path / "one.conllu", range(1)))
    for table in (attnprobe.entropy("demo", file), attnprobe.syntax("demo", file, by="head", min_links=1)):
        errors = [cells for name, cells in table.data.items() if name.endswith("_se")]
        assert errors
        assert all(np.isnan(np.array(cells, float)).all() for cells in errors)
        assert "1 document: standard errors are over documents, and undefined" in " ".join(table.notes)


class TestTwice:
    def test_one_file(self, files):
        parts = [attnprobe.entropy("demo", files["whole"], limit=limit) for limit in (20, None)]
        with pytest.raises(AttnprobeError, match=r"count twice|may hold the same documents"):
            attnprobe.merge(parts)

    def test_a_file_that_was_merged_twice_over(self, files, tmp_path):
        """The files of every job are known, however often their tables were merged."""
        third = str(treebank(tmp_path / "third.conllu", range(24, 30)))
        parts = [attnprobe.entropy("demo", files[name]) for name in ("first", "second")]
        merged = attnprobe.merge([attnprobe.merge(parts), attnprobe.entropy("demo", third)])
        names = [one["name"] for one in merged.provenance["merged"]]
        assert names == ["first.conllu", "second.conllu", "third.conllu"]
        with pytest.raises(AttnprobeError, match=r"count twice|may hold the same documents"):
            attnprobe.merge([merged, attnprobe.entropy("demo", files["first"], limit=5)])
