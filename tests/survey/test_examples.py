"""Sentences where a head is most and least itself, against loops by hand over eager maps of transformers."""

import math
from importlib.resources import files

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import attnprobe
from attnprobe.attention.kinds import Kind
from attnprobe.corpus.sources.text import read_embedded
from attnprobe.errors import AttnprobeError
from attnprobe.survey.example_measures import (
    SHARPNESS,
    choose_measure,
    explain_measure,
    measure_offset,
    measure_tokens,
)
from attnprobe.survey.tokens import Maps, Side

SHOWN = "The parcel came late, and she signed for it."
WORDS = [
    "the dog ran",
    "a red bird came late",
    "the river bank was slow .",
    "walker",
    "over the house by night",
]


@pytest.fixture(scope="module")
def demo():
    """Load the demo encoder without attnprobe, and its sentences."""
    folder = str(files("attnprobe") / "demo")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    texts = [document.text for document in read_embedded()]
    return model, AutoTokenizer.from_pretrained(folder), texts


def read_eager(model, tokenizer, text, layer, head, length=64):
    """Give the map of a head over the first tokens of a text, and which of them are special."""
    ids = tokenizer(text, truncation=True, max_length=length)["input_ids"]
    with torch.inference_mode():
        maps = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    special = [one in tokenizer.all_special_ids for one in ids]
    return maps[layer][0, head].double().numpy(), special


def previous_by_hand(rows, _, offset=-1):
    shares = [rows[query][query + offset] for query in range(len(rows)) if 0 <= query + offset < len(rows)]
    return sum(shares) / len(shares)


def sharpness_by_hand(rows, special, *, causal=False, asking=None):
    found = []
    for query in range(len(rows)):
        sees = range(query + 1 if causal else len(special))
        keys = [key for key in sees if not special[key] and not (causal and key == 0)]
        if (special if asking is None else asking)[query] or len(keys) < 2:
            continue
        rest = 1 - sum(rows[query][key] for key in keys)
        shares = [rows[query][key] + max(rest, 0) / len(keys) for key in keys]
        found.append(1 + sum(one * math.log(one) for one in shares if one > 0) / math.log(len(keys)))
    return sum(found) / len(found)


def excess_by_hand(rows, special):
    uniform = sum(special) / len(special)
    shares = [sum(share for share, there in zip(row, special, strict=True) if there) for row in rows]
    return sum((share - uniform) / (1 - uniform) for share in shares) / len(shares)


def rank_by_hand(demo, texts, layer, head, score):
    """Score every sentence of 8 tokens or more; the highest first, the earlier one of equals."""
    model, tokenizer, _ = demo
    found = []
    for place, text in enumerate(texts):
        rows, special = read_eager(model, tokenizer, text, layer, head)
        if len(rows) >= 8:
            found.append((score(rows, special), place))
    return sorted(found, key=lambda one: (-round(one[0], 5), one[1]))


@pytest.mark.parametrize(
    ("layer", "head", "score", "title"),
    [
        (3, 2, previous_by_hand, "attention to the previous token"),
        (1, 1, sharpness_by_hand, "sharpness beyond special tokens"),
    ],
)
def test_examples_are_those_of_a_loop_by_hand(demo, layer, head, score, title):
    texts = demo[2][::4]
    found = attnprobe.view("demo", SHOWN, layer=layer, head=head, examples=7, texts=texts).examples
    expected = rank_by_hand(demo, texts, layer, head, score)
    assert found.measure.title == title
    assert (found.kind, found.layer, found.head, found.sentences) == ("encoder", layer, head, len(expected))
    assert found.mean == pytest.approx(np.mean([one for one, _ in expected]), abs=1e-6)
    lowest = sorted(expected, key=lambda one: (round(one[0], 5), one[1]))
    for some, those in ((found.most, expected[:7]), (found.least, lowest[:7])):
        np.testing.assert_allclose([one.score for one in some], [one for one, _ in those], atol=2e-5)
        assert [one.place for one in some] == [place + 1 for _, place in those]
        assert [one.texts for one in some] == [(texts[place],) for _, place in those]
    for one in (*found.most, *found.least):
        rows, special = read_eager(*demo[:2], one.texts[0], layer, head)
        np.testing.assert_allclose(one.rows, rows, atol=1e-5)
        assert one.cut == (len(demo[1](one.texts[0])["input_ids"]) > 64)
        assert len(one.queries) == len(rows) == one.rows.shape[1]
        assert one.queries.special.tolist() == special
        assert np.nanmean(one.values) == pytest.approx(one.score, abs=2e-5)


def write_roles(path, role, measure, layers, heads):
    lines = ["model,dataset,layer,head,role,measure,value"]
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    path.write_text(
        "\n".join([*lines, *(f"a,b,{layer},{head},{role},{measure},0.9" for layer, head in places)])
    )
    return path


def test_a_delimiter_is_itself_where_special_tokens_get_more_than_their_share(demo, tmp_path):
    texts = demo[2][::6]
    options = {"census": write_roles(tmp_path / "roles.csv", "delimiter", "special_excess", 6, 4)}
    found = attnprobe.view("demo", SHOWN, layer=1, head=0, examples=4, texts=texts, **options).examples
    expected = rank_by_hand(demo, texts, 1, 0, excess_by_hand)
    assert found.role == "delimiter"
    assert [one.place for one in found.most] == [place + 1 for _, place in expected[:4]]
    for one in found.most:
        special = one.queries.special
        np.testing.assert_allclose(one.values, one.rows[:, special].sum(1), atol=1e-6)


def list_places(found):
    return [[(one.score, one.place) for one in some] for some in (found.most, found.least)]


def test_workers_and_memory_change_nothing(saved):
    texts = [f"{one} {other} . {one}" for one in WORDS for other in WORDS]
    options = {"examples": 4, "texts": texts, "layer": 1, "head": 2}
    alone = attnprobe.view(saved("bert"), SHOWN, **options, workers=1).examples
    several = attnprobe.view(saved("bert"), SHOWN, **options, workers=3).examples
    assert list_places(alone) == list_places(several)
    assert alone.mean == several.mean
    for one, other in zip(alone.most, several.most, strict=True):
        np.testing.assert_array_equal(one.rows, other.rows)


def test_equal_sentences_count_once_and_the_first_stands_for_them(saved):
    one, other = "the dog ran over the house by night", "a red bird came late by the river"
    texts = [one, other, one, "walker", other, one]
    found = attnprobe.view(saved("bert"), SHOWN, layer=0, head=0, examples=1, texts=texts).examples
    assert found.sentences == 5  # the walker alone is too short
    assert {found.most[0].place, found.least[0].place} == {1, 2}
    assert found.most[0].score > found.least[0].score
    several = [f"{one} by the river bank in the night" for one in WORDS]
    options = {"layer": 0, "head": 0, "examples": 2}
    once = attnprobe.view(saved("bert"), SHOWN, texts=several, **options).examples
    often = attnprobe.view(saved("bert"), SHOWN, texts=[*several, *several, *several], **options).examples
    assert list_places(often) == list_places(once)
    assert often.sentences == 3 * once.sentences


def test_of_few_sentences_none_is_at_both_ends(saved):
    texts = [f"{one} {other} by the river bank" for one, other in zip(WORDS, WORDS[::-1], strict=True)]
    found = attnprobe.view(saved("bert"), SHOWN, layer=0, head=0, examples=20, texts=texts).examples
    assert (len(found.most), len(found.least)) == (3, 2)
    assert {one.place for one in (*found.most, *found.least)} == {1, 2, 3, 4, 5}
    scores = [one.score for one in (*found.most, *reversed(found.least))]
    assert scores == sorted(scores, reverse=True)


def test_limit_and_sample_choose_what_is_read(saved):
    texts = [f"{one} {other} by the river bank" for one in WORDS for other in WORDS]
    options = {"layer": 0, "head": 0, "examples": 3}
    first = attnprobe.view(saved("bert"), SHOWN, texts=texts, limit=6, **options).examples
    assert list_places(first) == list_places(
        attnprobe.view(saved("bert"), SHOWN, texts=texts[:6], **options).examples
    )
    drawn = attnprobe.view(saved("bert"), SHOWN, texts=texts, sample=8, seed=3, **options).examples
    assert drawn.sentences == 8


def test_parts_of_a_treebank_are_sentences(saved, tmp_path):
    lines = ["# newdoc id = one"]
    for text in (f"{one} by the river bank in the night" for one in WORDS):
        words = text.split()
        lines += [f"{n}\t{word}\t_\tNOUN\t_\t_\t{n - 1}\tdep\t_\t_" for n, word in enumerate(words, 1)] + [""]
    (tmp_path / "some.conllu").write_text("\n".join(lines) + "\n")
    options = {"layer": 0, "head": 0, "examples": 2}
    found = attnprobe.view(saved("bert"), SHOWN, texts=tmp_path / "some.conllu", **options).examples
    assert found.sentences == len(WORDS)
    texts = [f"{one} by the river bank in the night" for one in WORDS]
    assert list_places(found) == list_places(
        attnprobe.view(saved("bert"), SHOWN, texts=texts, **options).examples
    )


@pytest.mark.parametrize(("name", "kind"), [("gpt2", "decoder"), ("t5", "cross"), ("t5", "decoder")])
def test_decoders(saved, tiny, name, kind):
    texts = [f"{one} by the river bank in the night {other}" for one in WORDS for other in WORDS[:2]]
    options = {"layer": 1, "head": 2, "attention": kind, "examples": 3}
    view = attnprobe.view(saved(name), SHOWN, texts=texts, **options)
    found = view.examples
    assert (found.kind, found.measure) == (kind, SHARPNESS)
    scores = {}
    for place, text in enumerate(texts, start=1):
        maps = attnprobe.view(saved(name), text, attention=kind).seen.of(kind)
        rows, sides = maps.rows[1, 2].astype(float), (maps.keys.special, maps.queries.special)
        scores[place] = sharpness_by_hand(rows, sides[0], causal=kind == "decoder", asking=sides[1])
    order = sorted(scores, key=lambda place: (-round(scores[place], 5), place))
    assert [one.place for one in found.most] == order[:3]
    np.testing.assert_allclose([one.score for one in found.most], [scores[p] for p in order[:3]], atol=2e-5)
    for one in found.most:
        assert np.nanmean(one.values) == pytest.approx(one.score, abs=2e-5)


def planted(rows, special=(), kind=Kind.ENCODER):
    marked = np.zeros(rows.shape[-1], bool)
    marked[list(special)] = True
    side = Side(tuple(map(str, range(len(marked)))), (), marked)
    return Maps(kind, (0,), rows[None, None].astype(np.float32), side, side, np.ones((1, 1), bool))


def at_offset(length, offset, share):
    rows = np.full((length, length), 0.0)
    for query in range(length):
        rows[query] = (1 - share) / (length - 1)
        rows[query, query + offset if 0 <= query + offset < length else query] = share
    return rows


@pytest.mark.parametrize(
    ("offset", "name", "title"),
    [
        (-1, "previous", "attention to the previous token"),
        (1, "next", "attention to the next token"),
        (0, "self", "attention to the token itself"),
        (-3, "attention_at_offset", "attention to the token at offset -3"),
    ],
)
def test_the_measure_is_what_the_head_mostly_does(offset, name, title):
    found = choose_measure(planted(at_offset(12, offset, 0.7)), 0, 0, None, None)
    assert (found.name, found.title) == (name, title)
    assert choose_measure(planted(at_offset(12, offset, 0.45)), 0, 0, None, None) is SHARPNESS


def test_a_head_of_special_tokens_or_of_the_first_is_measured_by_them():
    rows = np.full((9, 9), 0.4 / 8)
    rows[:, 8] = 0.6
    assert choose_measure(planted(rows, special=(0, 8)), 0, 0, None, None).name == "special_excess"
    first = rows[:, ::-1]
    assert choose_measure(planted(first, kind=Kind.DECODER), 0, 0, None, None).name == "first_token_excess"
    assert choose_measure(planted(first), 0, 0, None, None) is SHARPNESS


@pytest.mark.parametrize(
    ("role", "evidence", "name"),
    [
        ("previous", "offset_share", "previous"),
        ("offset +2", "offset_share", "attention_at_offset"),
        ("delimiter", "special_excess", "special_excess"),
        ("delimiter", "punctuation_excess", "punctuation_excess"),
        ("broad", "effective_share", "effective_share"),
        ("rare words", "rarest_excess", "rarest_excess"),
        ("syntactic: det", "det", "previous"),  # which no plain text shows: what the head does there
    ],
)
def test_a_role_has_its_measure(role, evidence, name):
    found = choose_measure(planted(at_offset(12, -1, 0.9)), 0, 0, role, evidence)
    assert found.name == name
    assert explain_measure(found).endswith(".")


def test_offsets_are_read_where_they_are():
    rows = at_offset(10, 2, 0.8)
    values = measure_tokens(measure_offset(2), rows, planted(rows))
    np.testing.assert_allclose(values[:8], 0.8)
    assert np.isnan(values[8:]).all()


def test_roles_of_a_table_choose_the_measure(saved, tmp_path):
    census = write_roles(tmp_path / "roles.csv", "next", "offset_share", 3, 4)
    texts = [f"{one} by the river bank in the night" for one in WORDS]
    options = {"census": census, "role": "next", "examples": 2, "texts": texts}
    view = attnprobe.view(saved("bert"), SHOWN, **options)
    found = view.examples
    assert (found.role, found.measure.name) == ("next", "next")
    for one in found.most:
        assert previous_by_hand(one.rows.astype(float), None, 1) == pytest.approx(one.score, abs=2e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"texts": ["the dog"]}, "none has 8 tokens"),
        ({"texts": []}, "not a single document|nothing to measure|no document"),
        ({"rollout": True, "layer": 0}, "Rollout is no head"),
    ],
)
def test_what_has_no_examples_is_refused(saved, options, said):
    with pytest.raises(AttnprobeError, match=said):
        attnprobe.view(saved("bert"), SHOWN, examples=2, **options)


def test_a_picture_shows_no_examples(saved):
    view = attnprobe.view(saved("bert"), SHOWN, layer=0, head=0, examples=2)
    with pytest.raises(AttnprobeError, match="Examples are shown in a page"):
        view.rendered("svg")
