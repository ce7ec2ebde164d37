"""The file of sentences: what was written comes back, and anything else is refused."""

import base64
import json
import zlib

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.reports.report_page.sentences import Sentences, encode_sentences, read_sentences
from attnprobe.survey.tokens import Maps, SequenceAttention, Side


def side(*labels):
    return Side(labels, labels, np.zeros(len(labels), bool))


@pytest.fixture
def watched():
    rows = np.random.default_rng(1).dirichlet(np.ones(3), (2, 4, 2)).astype(np.float32)
    maps = Maps(
        Kind.ENCODER, (0, 2), rows, side("a", "</script>"), side("x", "\u202e", "z"), np.ones((2, 4), bool)
    )
    return Sentences([SequenceAttention("m", ("a b", "c"), (maps,))], "chosen so", "a 'model'", "data.txt")


def test_what_was_written_comes_back(watched, tmp_path):
    path = tmp_path / "sentences.json"
    path.write_bytes(encode_sentences(watched))
    found = read_sentences(path)
    assert (found.chosen, found.model, found.data) == ("chosen so", "a 'model'", "data.txt")
    (one,), (other,) = found.seen, watched.seen
    assert (one.model, one.texts) == (other.model, other.texts)
    (maps,), (expected,) = one.maps, other.maps
    assert (maps.kind, maps.layers) == (expected.kind, expected.layers)
    assert maps.queries.labels == expected.queries.labels
    assert maps.keys.labels == expected.keys.labels
    np.testing.assert_allclose(maps.rows, expected.rows, rtol=0, atol=5.1e-5)
    path.write_bytes(encode_sentences(found))
    again = read_sentences(path)
    np.testing.assert_array_equal(again.seen[0].maps[0].rows, maps.rows)  # four decimals stay as they are


def packed(content):
    return base64.b64encode(zlib.compress(content)).decode()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda _: b"[]",
        lambda _: b'{"what": "something else"}',
        lambda _: b"[" * 100_000,
        lambda content: content[:200],
        lambda content: content.replace(b'"encoder"', b'"nonsense"'),
        lambda content: content.replace(b'"heads": 4', b'"heads": 5'),
        lambda content: content.replace(b'"heads": 4', b'"heads": 100000000000'),
        lambda content: content.replace(b'"heads": 4', b'"heads": true'),
        lambda content: content.replace(b'"a b"', b"7"),
        lambda content: content.replace(b'"chosen so"', b"null"),
        lambda content: content.replace(b"</script>", b'", "b'),
    ],
)
def test_anything_else_is_refused(watched, tmp_path, spoil):
    path, content = tmp_path / "sentences.json", encode_sentences(watched)
    path.write_bytes(spoil(content))
    assert path.read_bytes() != content
    with pytest.raises(AttnprobeError, match="holds no sentences of a report, or is damaged"):
        read_sentences(path)


@pytest.mark.parametrize(
    "rows",
    [
        "not base64!",
        packed(b"\0" * 95),
        packed(b"\0" * 97),
        packed(b"\0" * 10_000_000),  # far more than it says
        packed(b"\xff" * 96),  # more than 1
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"\0" * 96)[:-4]).decode(),  # cut off
        5,
    ],
)
def test_packed_probabilities_are_what_they_stand_for(watched, tmp_path, rows):
    path, about = tmp_path / "sentences.json", json.loads(encode_sentences(watched))
    about["sentences"][0]["maps"][0]["rows"] = packed(b"\0" * 96)
    path.write_text(json.dumps(about))
    assert not read_sentences(path).seen[0].maps[0].rows.any()
    about["sentences"][0]["maps"][0]["rows"] = rows
    path.write_text(json.dumps(about))
    with pytest.raises(AttnprobeError, match="or is damaged"):
        read_sentences(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(AttnprobeError, match="can't be read"):
        read_sentences(tmp_path / "sentences.json")


def test_special_tokens_are_kept_and_those_that_are_not_there_refused(watched, tmp_path):
    path, about = tmp_path / "sentences.json", json.loads(encode_sentences(watched))
    maps = about["sentences"][0]["maps"][0]
    maps["special_keys"] = [len(maps["keys"]) - 1]
    path.write_text(json.dumps(about))
    found = read_sentences(path).seen[0].maps[0]
    assert np.flatnonzero(found.keys.special).tolist() == maps["special_keys"]
    again = json.loads(encode_sentences(read_sentences(path)))
    assert again["sentences"][0]["maps"][0]["special_keys"] == maps["special_keys"]
    for wrong in ([len(maps["keys"])], [-1], 3, [True], ["0"]):
        maps["special_keys"] = wrong
        path.write_text(json.dumps(about))
        with pytest.raises(AttnprobeError, match="or is damaged"):
            read_sentences(path)
    del maps["special_keys"], maps["special_queries"]  # as earlier versions wrote it
    path.write_text(json.dumps(about))
    assert not read_sentences(path).seen[0].maps[0].keys.special.any()
