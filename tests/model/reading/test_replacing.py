"""What takes the place of what heads give, against hooks on the output projections, written by hand."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

from attnprobe.model.check.dry_run import inspect
from attnprobe.model.check.gates import check_replacements
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import load_checkpoint
from attnprobe.model.pruning import save_pruned
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.gates import Gates, gate_attention
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.model.reading.ways import Way
from attnprobe.model.removing import remove_heads

#: The modules that read what the heads of a layer give, side by side.
READERS = re.compile(r"(attention\.output\.dense|SelfAttention\.o|EncDecAttention\.o|attn\.c_proj)$")
#: By the way to their attention.
ROUTED = ("bert", "gpt2", "t5", "one head")
TAPPED = ("deberta-v2",)


def build(name, tiny):
    """Build a model, what it is given, and how many heads its layers have."""
    if name == "one head":
        torch.manual_seed(4)
        sizes = {"hidden_size": 16, "num_attention_heads": 1, "num_hidden_layers": 3, "intermediate_size": 24}
        model = AutoModel.from_config(AutoConfig.for_model("bert", vocab_size=90, **sizes)).eval()
        for weight in model.requires_grad_(False).parameters():
            weight.mul_(8) if weight.ndim == 2 else weight
        return model, {"input_ids": torch.randint(5, 90, (3, 11))}, 1
    model, tokenizer = tiny(name)
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, len(tokenizer), (3, 14), generator=draw)
    given = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids.flip(1)[:, :9].contiguous()
    return model, given, 4


def readers_of(model):
    return [module for name, module in model.named_modules() if READERS.search(name)]


@contextmanager
def hooked(model, heads, hook):
    """Change what projections read, (batch, query, head, width), by hand; layers count in their order."""
    removes, calls = [], []

    def enter(_, arguments):
        layer = len(calls)
        calls.append(layer)
        read = arguments[0]
        return (hook(layer, read.unflatten(-1, (heads, -1))).flatten(-2), *arguments[1:])

    removes = [reader.register_forward_pre_hook(enter) for reader in readers_of(model)]
    try:
        yield
    finally:
        for removed in removes:
            removed.remove()


def outputs_by_hand(model, given, heads):
    outputs: dict[int, Tensor] = {}

    def keep(layer, read):
        outputs[layer] = read
        return read

    with hooked(model, heads, keep):
        model(**given)
    return outputs


def close(values, expected):
    return float((values - expected).abs().max()) <= 1e-6 * max(1.0, float(expected.abs().max()))


def drawn(outputs, heads, seed):
    """Draw gates for every example, and what takes the place: for each example and query, or for all."""
    draw = torch.Generator().manual_seed(seed)
    rows = {k: torch.rand(len(o), heads, generator=draw) for k, o in outputs.items()}
    places = {}
    for k, o in outputs.items():
        shape = o.shape if k % 2 else (1, 1, *o.shape[2:])
        places[k] = torch.randn(shape, generator=draw) * o.std()
    return rows, places


def way_of(name):
    return Way.TAP if name in TAPPED else Way.REGISTRY


@pytest.mark.parametrize("name", ROUTED + TAPPED)
class TestAgainstHooks:
    def test_outputs(self, tiny, name):
        model, given, heads = build(name, tiny)
        expected = outputs_by_hand(model, given, heads)
        assert len(expected) == len(readers_of(model)) > 1
        with gate_attention(model, way_of(name)) as gates:
            rows, places = drawn(expected, heads, 3)
            with gates.record_outputs() as recorded:
                model(**given)
            assert recorded.keys() == expected.keys()
            assert all(close(recorded[layer], expected[layer]) for layer in expected)
            assert not gates.recording
            # What is kept has not passed the gates of its own layer.
            gates.rows, gates.replacements = {0: rows[0]}, {0: places[0]}
            with gates.record_outputs() as recorded:
                model(**given)
            assert close(recorded[0], expected[0])
            assert not close(recorded[1], expected[1])

    def test_replaced(self, tiny, name):
        model, given, heads = build(name, tiny)
        untouched, outputs = model(**given)[0], outputs_by_hand(model, given, heads)
        rows, places = drawn(outputs, heads, 5)

        def replace(layer, read):
            gate = rows[layer][:, None, :, None]
            return gate * read + (1 - gate) * places[layer]

        with hooked(model, heads, replace):
            expected = model(**given)[0]
        with gate_attention(model, way_of(name)) as gates:
            gates.rows, gates.replacements = rows, places
            assert close(model(**given)[0], expected)
            assert not close(expected, untouched)
            gates.replacements = {}  # zero takes the place
            zero = model(**given)[0]
            gates.replacements = {k: torch.zeros_like(place) for k, place in places.items()}
            assert close(model(**given)[0], zero)
            assert not close(zero, expected)
            # A head's own output in its place changes nothing.
            gates.rows = {k: torch.zeros_like(row) for k, row in rows.items()}
            gates.replacements = outputs
            assert close(model(**given)[0], untouched)
            gates.open()
            assert close(model(**given)[0], untouched)


@pytest.mark.parametrize("name", ROUTED)
def test_resumed_equals_whole(tiny, name):
    model, given, heads = build(name, tiny)
    with gate_attention(model) as gates, torch.inference_mode():
        model(**given)
        sites = tuple(gates.counter.called)
        replay = BatchReplay(model, gates)
        outputs = outputs_by_hand(model, given, heads)
        rows, places = drawn(outputs, heads, 13)
        with replay.watch(sites):
            with replay.record():
                untouched = model(**given)[0]
            for layer in outputs:
                gates.rows, gates.replacements = {layer: rows[layer]}, {layer: places[layer]}
                whole = model(**given)[0]
                assert not close(whole, untouched)
                with replay.resume_at(layer):
                    assert close(model(**given)[0], whole)
                with (
                    replay.resume_at(layer),
                    gates.take_outputs({layer: places[layer].expand_as(outputs[layer])}),
                ):
                    gates.open()
                    taken = model(**given)[0]
                gates.rows = {layer: torch.zeros(1, heads)}
                gates.replacements = {layer: places[layer]}
                assert close(model(**given)[0], taken)


def test_physically_pruned_heads(tiny, tmp_path):
    """The dry run's numbers of heads fit: a head's own output in its place changes nothing."""
    keep = np.ones((3, 4), bool)
    keep[1, 2] = keep[0, 0] = False
    whole = Checkpoint("bert", *tiny("bert"))
    save_pruned(
        remove_heads(whole, keep, physical=True), whole, keep, tmp_path / "small", physical=True, record={}
    )
    pruned = load_checkpoint(str(tmp_path / "small"))
    architecture = inspect(pruned)
    assert architecture.computed_heads == ((1, 2, 3), (0, 1, 3), (0, 1, 2, 3))
    given = {"input_ids": torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(3))}
    with architecture.gate(pruned.body) as gates:
        with gates.record_outputs() as outputs:
            untouched = pruned.forward(given)
        gates.set(torch.zeros(1, 3, 4))
        gates.replacements = dict(outputs)
        assert close(pruned.forward(given), untouched)
    check_replacements(pruned, architecture)


class TestCheck:
    """The check before replacements are believed fails where they fail."""

    def test_outputs_that_are_not_taken(self, tiny, monkeypatch):
        checkpoint = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(checkpoint)
        monkeypatch.setattr(Gates, "pass_output", lambda _, layer, output: output)
        with pytest.raises(
            UnsupportedModelError, match="what takes the place of its heads' output changes not"
        ):
            check_replacements(checkpoint, architecture)
        monkeypatch.setattr("attnprobe.model.reading.gates._PRODUCTS", ())
        tapped = Checkpoint("deberta-v2", *tiny("deberta-v2"))
        with pytest.raises(UnsupportedModelError, match="what its heads give can't be replaced"):
            check_replacements(tapped, inspect(tapped))

    def test_outputs_that_are_others(self, tiny, monkeypatch):
        checkpoint = Checkpoint("bert", *tiny("bert"))
        architecture = inspect(checkpoint)
        right = Gates.pass_output

        def reverse(gates, layer, output):
            passed = right(gates, layer, output)
            return passed.flip(1) if gates.replacements else passed

        monkeypatch.setattr(Gates, "pass_output", reverse)
        with pytest.raises(UnsupportedModelError, match="with its own output in their place, they differ"):
            check_replacements(checkpoint, architecture)
