"""Attention weighted by what it carries, against maps and vectors that models give themselves.

The reference takes values from hooks on the model's own value projections, writes every W_O,h v_j out as a
vector of the residual stream, weights the eager maps by their lengths, and computes every number from its
definition (``by_definition``).
"""

import re
from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from by_definition import Rarity, Sample, largest_difference, read, reference

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.statistics import all_statistics, census_statistics
from attnprobe.statistics.statistic import weight_by_norm

TOLERANCE = 1e-5
#: Of every architecture: where values come from, and where heads are projected from there.
SITES = {
    "bert": (r"attention\.self\.value$", "attention.output.dense"),
    "llama": (r"self_attn\.v_proj$", "self_attn.o_proj"),
    "t5": (r"Attention\.v$", r"Attention.o"),
}  # fmt: skip
CAUSAL = {"llama"}


def vectors(values, module, heads):
    """Write out W_O,h v_j, (head, key, model width), from what a value projection gave (key, ...)."""
    weight = module.weight.detach().double().numpy().T
    width = weight.shape[0] // heads
    values = values.double().numpy()
    by_head = values.reshape(len(values), -1, width)
    by_head = by_head.repeat(heads // by_head.shape[1], 1)  # heads that share a value
    return np.einsum("khw,hwd->hkd", by_head, weight.reshape(heads, width, -1))


def measuring(name):
    """Watch a model's own value projections, and give the lengths of the last pass."""
    pattern, output = SITES[name]

    def measure(model):
        heads = model.config.num_attention_heads
        modules, lengths_of_kind = dict(model.named_modules()), defaultdict(list)

        def watch(site):
            crossed = "EncDec" in site or "encoder_attn" in site
            decodes = name in CAUSAL or site.startswith("decoder.")
            kind = "cross" if crossed else "decoder" if decodes else "encoder"
            target = modules[re.sub(pattern, output, site)]

            def note(_module, _given, values):
                each = vectors(values[0].detach(), target, heads)
                lengths_of_kind[kind].append(np.linalg.norm(each, axis=-1))

            modules[site].register_forward_hook(note)

        for site in modules:
            if re.search(pattern, site):
                watch(site)

        def lengths():
            each = {kind: np.stack(layers) for kind, layers in lengths_of_kind.items()}
            lengths_of_kind.clear()
            return each

        return lengths

    return measure


def by_norm(heard):
    """Weight the maps; a row that carries nothing has no numbers."""
    with np.errstate(invalid="ignore"):
        maps = heard.maps * heard.lengths[:, :, None]
        return replace(heard, maps=maps / maps.sum(-1, keepdims=True))


def carried(heard, *, content_only):
    """Sum what each kind of key carries, averaged over the queries of a text, (layer, head)."""
    keys, able = heard.keys, ~heard.queries.special if content_only else np.ones(heard.maps.shape[2], bool)
    kept = ~keys.special if content_only else np.ones(heard.maps.shape[3], bool)
    rows = heard.maps[:, :, able] * kept
    each = rows / rows.sum(-1, keepdims=True) * heard.lengths[:, :, None]
    place = np.flatnonzero(able)
    means = {"norm_total": each.sum(-1).mean(-1)}
    for feature in ("first", "separator", "punctuation", "other"):
        marks = getattr(keys, feature) & kept
        sees = np.ones(len(place), bool)
        if feature in ("first", "separator"):
            reach = place if heard.kind == "decoder" else np.full(len(place), len(marks) - 1)
            sees = marks.cumsum()[reach] > 0
        mass = each[..., marks].sum(-1)[..., sees]
        means[f"norm_{feature}"] = mass.mean(-1) if sees.any() else np.full(mass.shape[:2], np.nan)
    return means


@pytest.fixture(scope="module")
def case(saved, texts):
    """Give the reference of an architecture, and the folder it is in."""

    @cache
    def ask(name, content_only):
        folder = saved(name)
        whole, vocabulary = read(folder, texts, measuring(name))
        lines = [text[0].keys.names for text in whole]
        rarity = Rarity.of(lines, vocabulary, {})
        expected = reference(
            [[by_norm(h) for h in text] for text in whole], rarity, content_only=content_only
        )
        parts = [[carried(heard, content_only=content_only) for heard in text] for text in whole]
        expected |= {
            part: Sample.of(np.stack([np.concatenate([kind[part] for kind in text]) for text in parts]))
            for part in parts[0][0]
        }
        return folder, expected

    return ask


def measures(table):
    """Give the numbers of a table."""
    return {
        column.name: np.asarray(table.data[column.name], float)
        for column in table.columns
        if column.role != "key"
    }


# Which tokens count does not depend on where a model's values lie.
@pytest.mark.parametrize(("name", "content_only"), [("bert", False), ("llama", True), ("t5", False)])
def test_every_column_is_that_of_explicit_vectors(case, texts, name, content_only):
    folder, expected = case(name, content_only)
    table = attnprobe.census(str(folder), texts, weights="norm", content_only=content_only)
    columns = measures(table)
    checked = 0
    for statistic in [
        *map(weight_by_norm, census_statistics()),
        *(s for s in all_statistics().values() if s.weights == "norm"),
    ]:
        plain = statistic.of or statistic
        if plain.about == "patches" or plain.name == "offset_share":
            continue
        numbers = expected[plain.name]
        assert largest_difference(columns[statistic.name], numbers.mean) < TOLERANCE, statistic.name
        assert largest_difference(columns[f"{statistic.name}_se"], numbers.error) < TOLERANCE, statistic.name
        if statistic.own_count:
            assert largest_difference(columns[f"{statistic.name}_n"], numbers.count) == 0
        checked += 1
    assert checked == 24
    offsets = expected["offsets"]
    competing = 2 * offsets.count >= offsets.count.max(-1, keepdims=True)
    best = np.where(competing, np.nan_to_num(offsets.mean, nan=-1), -1).max(-1)
    assert (
        largest_difference(columns["offset_share_norm"], np.where(offsets.count.max(-1) > 0, best, np.nan))
        < TOLERANCE
    )
    pairs = attnprobe.distance(str(folder), texts, weights="norm", content_only=content_only)
    assert largest_difference(pairs["jsd_norm"], expected["jsd"].mean) < TOLERANCE
    layers = attnprobe.distance(str(folder), texts, by="layer", weights="norm", content_only=content_only)
    assert largest_difference(layers["jsd_mean_norm"], expected["jsd_layer"].mean) < TOLERANCE


# Heads that carry nothing


@pytest.fixture
def zeroed(copied, tmp_path):
    """Save a BERT whose head 2 of layer 1 gives nothing: its columns of the output projection are 0."""
    model, tokenizer = copied("bert")
    width = model.config.hidden_size // model.config.num_attention_heads
    with torch.no_grad():
        model.encoder.layer[1].attention.output.dense.weight[:, 2 * width : 3 * width] = 0
    model.save_pretrained(tmp_path / "zeroed")
    tokenizer.save_pretrained(tmp_path / "zeroed")
    return tmp_path / "zeroed"


def test_a_zeroed_head(zeroed, texts, saved):
    """It carries 0, has no weighted rows, and is no other head for those of its layer."""
    table = attnprobe.census(zeroed, texts, weights="both")
    row = (table["layer"] == 1) & (table["head"] == 2)
    assert (table["norm_total"][row] == 0).all()
    assert (table["norm_other"][row] == 0).all()
    assert (table["norm_total"][~row] > 0).all()
    assert np.isfinite(table["entropy"].astype(float)).all()
    for name in ("entropy_norm", "sink_share_norm", "previous_norm", "offset_share_norm", "jsd_mean_norm"):
        values = np.array(table.data[name], float)
        assert np.isnan(values[row]).all(), name
        assert np.isfinite(values[~row]).all(), name
    assert table.column("entropy_norm").unit == "nats, by norm"
    assert table.column("norm_total").headline
    pairs = attnprobe.distance(zeroed, texts, weights="norm")
    assert pairs.title.endswith("by norm")
    gone = (pairs["layer_a"] == 1) & ((pairs["head_a"] == 2) | (pairs["head_b"] == 2))
    assert np.isnan(pairs["jsd_norm"][gone]).all()
    assert (pairs["n"][gone] == 0).all()
    assert np.isfinite(pairs["jsd_norm"][~gone]).all()
    for head in (0, 1, 3):
        others = (pairs["layer_a"] == 1) & ~gone & ((pairs["head_a"] == head) | (pairs["head_b"] == head))
        mean = table["jsd_mean_norm"][(table["layer"] == 1) & (table["head"] == head)]
        np.testing.assert_allclose(mean, pairs["jsd_norm"][others].mean(), rtol=1e-6)
    layers = attnprobe.distance(zeroed, texts, by="layer", weights="norm")
    assert np.isfinite(layers["jsd_mean_norm"].astype(float)).all()
    np.testing.assert_allclose(
        layers["jsd_mean_norm"][1], pairs["jsd_norm"][(pairs["layer_a"] == 1) & ~gone].mean(), rtol=1e-6
    )


@pytest.mark.parametrize("command", ["census", "distance"])
def test_models_that_give_no_values_are_refused_by_name(saved, texts, command):
    with pytest.raises(
        AttnprobeError,
        match="deberta-v2",
    ):
        getattr(attnprobe, command)(str(saved("deberta-v2")), texts, weights="norm")
