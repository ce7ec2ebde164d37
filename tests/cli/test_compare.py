"""``compare``, from the command line: known answers, other shapes, files and refusals."""

import copy

import numpy as np
import pytest
import torch

from attnprobe.table.table import HeadTable

TEXTS = [
    "the river bank was slow , and the dog ran to the water .",
    "She said: never walk under the train-stop at night!",
    "he walks slowly over the road between river and bank",
    "red house , green house , blue house",
    "the parcel came late , and it was not early",
    "zyx qwv the the the the",
    "a bird sang in the stone house by the river",
    "is it late ? it was always late",
]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS * 3) + "\n")
    return path


@pytest.fixture
def kept(tmp_path, tiny):
    """Change a tiny BERT, save it, and give the folder."""

    def keep(name, change):
        model, tokenizer = tiny("bert")
        model = copy.deepcopy(model)
        with torch.no_grad():
            change(model)
        folder = tmp_path / name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return keep


@pytest.fixture
def compared(invoke, tmp_path):
    """Compare, and give the table."""

    def compare(*words):
        path = tmp_path / "compared.csv"
        code, _, error = invoke("compare", *words, "-o", path, "--overwrite", "-q")
        assert code == 0, error
        return HeadTable.read(path)

    return compare


def head(attention, number):
    """The rows of a head in the projections of BERT."""
    width = attention.query.weight.shape[0] // 4
    return slice(number * width, (number + 1) * width)


def test_a_model_with_itself(compared, tmp_path, saved, texts):
    table = compared(saved("bert"), saved("bert"), "-d", texts)
    assert not table["jsd"].any()
    assert not table["jsd_nearest"].any()
    assert table["nearest_layer"].tolist() == table["layer"].tolist()
    assert table["nearest_head"].tolist() == table["head"].tolist()
    deltas = [name for name in table.data if name.endswith("_delta")]
    assert len(deltas) > 15
    for name in deltas:
        values = table[name].astype(float)
        assert np.isnan(values).all() or not np.nanmax(np.abs(values))
        p = table[name.replace("_delta", "_p_adjusted")].astype(float)
        assert (p[~np.isnan(values)] == 1).all()
    assert any("12 of 12 heads have a jsd of at most" in note for note in table.notes)


ORDERS = [[2, 0, 3, 1], [1, 2, 3, 0], [3, 2, 1, 0]]


def permuted(model):
    for layer, order in zip(model.encoder.layer, ORDERS, strict=True):
        attention, dense = layer.attention.self, layer.attention.output.dense
        rows = torch.cat(
            [torch.arange(attention.query.weight.shape[0])[head(attention, number)] for number in order]
        )
        for part in (attention.query, attention.key, attention.value):
            part.weight.data, part.bias.data = part.weight.data[rows], part.bias.data[rows]
        dense.weight.data = dense.weight.data[:, rows]


@pytest.mark.parametrize("match", ["layer", "model"])
def test_permuted_heads_are_matched(compared, tmp_path, saved, texts, kept, match):
    other = kept("permuted", permuted)
    table = compared(saved("bert"), other, "-d", texts, "--match", match, "--measure", "entropy")
    expected = [order.index(number) for order in ORDERS for number in range(4)]
    for how in ("matched", "nearest"):
        assert table[f"{how}_layer"].tolist() == table["layer"].tolist()
        assert table[f"{how}_head"].tolist() == expected
        assert table[f"jsd_{how}"].max() < 1e-6
    assert np.abs(table["entropy_delta"]).max() < 1e-5  # of the matched head
    assert table["jsd"].min() > 1e-3


@pytest.mark.parametrize("match", ["outputs", "outputs-layer"])
def test_permuted_heads_are_matched_by_what_they_give(compared, saved, texts, kept, match):
    other = kept("permuted", permuted)
    words = [saved("bert"), other, "-d", texts, "--match", match, "--measure", "entropy"]
    table = compared(*words)
    expected = [order.index(number) for order in ORDERS for number in range(4)]
    assert table["matched_layer"].tolist() == table["layer"].tolist()
    assert table["matched_head"].tolist() == expected
    assert table["cka_matched"].min() > 1 - 1e-6
    assert table["jsd_matched"].max() < 1e-6
    assert np.abs(table["entropy_delta"]).max() < 1e-5  # of the matched head
    moved = table["matched_head"] != table["head"]
    assert table["cka"][moved].max() < 0.99
    alone = compared(*words, "--no-nearest")
    assert not {"nearest_head", "jsd_matched"} & set(alone.data)
    np.testing.assert_allclose(alone["cka_matched"], table["cka_matched"], rtol=1e-6)


def test_the_head_whose_weights_were_noised_changes_and_none_before_it(compared, saved, texts, kept):
    def noised(model):
        torch.manual_seed(0)
        attention = model.encoder.layer[1].attention.self
        for part in (attention.query, attention.key):
            rows = head(attention, 2)
            part.weight[rows] += 3 * part.weight[rows].std() * torch.randn_like(part.weight[rows])

    table = compared(saved("bert"), kept("noised", noised), "-d", texts)
    before = (table["layer"] < 1) | ((table["layer"] == 1) & (table["head"] != 2))
    assert not table["jsd"][before].any()
    assert table["jsd"][4 + 2] > 1e-3
    assert (table["entropy_p_adjusted"][before] == 1).all()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["demo", "demo", "demo"], "two checkpoints, not 3"),
        (["demo", "demo", "--match", "layer", "--no-nearest"], "leave out --no-nearest"),
        (["demo", "demo", "--measure", "nonsense"], "no statistic 'nonsense'"),
        (["demo", "demo", "--revisions", "a,b"], "name one"),
        (["demo", "--revisions", "a"], "has no revisions"),
    ],
)
def test_what_can_not_be_compared_is_refused_in_a_sentence(invoke, use_cache, tmp_path, words, says):
    use_cache(tmp_path)
    code, out, err = invoke("compare", *words)
    assert code == 2
    assert says in err
    assert not out
