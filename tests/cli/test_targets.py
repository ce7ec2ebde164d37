"""--target-column, for the decoder beside an encoder."""

import pytest


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = ["source\ttarget text", "the dog ran\ta cat walks", "a bird\t", "is it late ?\tnever by night"]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_targets(tabulate, saved, pairs):
    """A row without a target is left out, and said."""
    words = ["-d", pairs, "--text-column", "source"]
    table = tabulate("entropy", saved("t5"), *words, "--target-column", "target text")
    assert "1 example is left out for want of a target text." in table.attrs["error"]
    assert list(table["attention"].unique()) == ["encoder", "decoder", "cross"]
    assert (table["n"] == 2).all()
    whole = tabulate("entropy", saved("t5"), *words)
    assert (whole["n"] == 3).all()
    assert not (whole["entropy"] == table["entropy"]).any()
