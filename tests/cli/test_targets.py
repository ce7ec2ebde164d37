"""--target-column, for the decoder beside an encoder."""

import io

import pandas as pd
import pytest


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = ["source\ttarget text", "the dog ran\ta cat walks", "a bird\t", "is it late ?\tnever by night"]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_targets(invoke, saved, pairs):
    """A row without a target is left out, and said."""
    words = ["-d", pairs, "--text-column", "source"]
    code, out, error = invoke("entropy", saved("t5"), *words, "--target-column", "target text")
    assert code == 0, error
    assert "1 example is left out for want of a target text." in error
    table = pd.read_csv(io.StringIO(out))
    assert list(table["attention"].unique()) == ["encoder", "decoder", "cross"]
    assert (table["n"] == 2).all()
    code, out, _ = invoke("entropy", saved("t5"), *words)
    assert code == 0
    whole = pd.read_csv(io.StringIO(out))
    assert (whole["n"] == 3).all()
    assert not (whole["entropy"] == table["entropy"]).any()
