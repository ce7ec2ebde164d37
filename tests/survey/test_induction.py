"""Random tokens, repeated: a planted head, values from a model's own maps, and what is drawn."""

import re

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

import attnprobe
from attnprobe.corpus.tokens.tokenization import Frame
from attnprobe.corpus.tokens.vocabulary import ordinary_ids
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.load import load_checkpoint
from attnprobe.run.input.repeated import Repeated

LENGTH, SEQUENCES = 12, 6


def drawn(checkpoint, length=LENGTH, sequences=SEQUENCES, seed=42):
    """Draw the sequences of a model, and give them with the number of special tokens before the first."""
    frame = Frame.of(checkpoint.tokenizer)
    found = Repeated(length, sequences, seed).drawn(checkpoint, frame)
    return [sequence.ids for sequence in found], len(frame.before)


def by_definition(maps, first, length):
    """Compute the three scores by numpy from maps of sequences (sequence, layer, head, query, key).

    - first: where the first copy begins.
    """
    queries = np.arange(first + length, first + 2 * length)
    places = {"induction": queries - length + 1, "duplicate": queries - length, "previous": queries - 1}
    each = {name: maps[..., queries, keys].mean(-1) for name, keys in places.items()}
    return {
        name: (values.mean(0).ravel(), (values.std(0, ddof=1) / len(values) ** 0.5).ravel())
        for name, values in each.items()
    }


def check(found, expected, rows=slice(None)):
    for name, (mean, error) in expected.items():
        np.testing.assert_allclose(found[name][rows], mean, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(found[f"{name}_se"][rows], error, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["demo", "gpt2", "llama", "roberta", "bert-unframed"])
def test_values_from_its_own_maps(saved, name):
    folder = name if name == "demo" else saved(name)
    found = attnprobe.induction(folder, length=LENGTH, sequences=SEQUENCES)
    checkpoint = load_checkpoint(str(folder))
    rows, first = drawn(checkpoint)
    checkpoint.model.set_attn_implementation("eager")
    with torch.inference_mode():
        maps = checkpoint.body(input_ids=torch.tensor(rows), output_attentions=True).attentions
    check(found, by_definition(torch.stack(maps, 1).double().numpy(), first, LENGTH))
    assert found["n"].tolist() == [SEQUENCES] * len(found)


def test_values_of_an_encoder_and_its_decoder(saved):
    found = attnprobe.induction(saved("bart"), length=LENGTH, sequences=SEQUENCES)
    checkpoint = load_checkpoint(str(saved("bart")))
    rows, first = drawn(checkpoint)
    checkpoint.model.set_attn_implementation("eager")
    inputs = {
        "input_ids": torch.tensor(rows),
        "decoder_input_ids": torch.tensor([checkpoint.shifted(row) for row in rows]),
    }
    with torch.inference_mode():
        gives = checkpoint.body(**inputs, output_attentions=True)
    kinds = np.array(found["attention"])
    for kind, maps, begin in (
        ("encoder", gives.encoder_attentions, first),
        ("decoder", gives.decoder_attentions, first + 1),  # behind the token that starts it
    ):
        check(found, by_definition(torch.stack(maps, 1).double().numpy(), begin, LENGTH), kinds == kind)
    cross = kinds == "cross"
    assert all(np.isnan(found[name][cross]).all() for name in ("induction", "duplicate", "previous"))
    assert found.notes[-1].startswith("From decoder to encoder")


def test_planted_heads_are_found(tiny):
    """Weights by hand: positions are all there is, and each head looks a fixed number of places back."""
    _, tokenizer = tiny("bert")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_attention_heads=2, num_hidden_layers=1,
        intermediate_size=8, max_position_embeddings=64,
    )  # fmt: skip
    model = BertModel(config).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.zero_()
    model.embeddings.position_embeddings.weight[:, :64] = torch.eye(64)
    model.embeddings.LayerNorm.weight.fill_(1)
    attention = model.encoder.layer[0].attention.self
    for head, step in enumerate((LENGTH - 1, LENGTH)):  # to what came next, and to the copy
        rows = slice(64 * head, 64 * head + 64)
        attention.query.weight[rows, :64] = torch.eye(64)
        attention.key.weight[rows, :64] = torch.eye(64).roll(step, 0)
    attention.query.weight.mul_(10)
    found = attnprobe.induction(model, length=LENGTH, sequences=SEQUENCES, tokenizer=tokenizer)
    np.testing.assert_allclose(found["induction"], [1, 0], atol=1e-6)
    np.testing.assert_allclose(found["duplicate"], [0, 1], atol=1e-6)
    np.testing.assert_allclose(found["previous"], [0, 0], atol=1e-6)
    assert list(found.notes) == [
        "Heads with a score of 0.5 or more, by its interval (induction heads): layer 0 head 0 (1.00).",
        "Heads with a score of 0.5 or more, by its interval (duplicate-token heads): layer 0 head 1 (1.00).",
    ]


def test_random_weights_have_no_such_heads(tiny):
    """Uniform rows give one over the number of keys."""
    _, tokenizer = tiny("bert")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_attention_heads=4, num_hidden_layers=2,
        intermediate_size=32, max_position_embeddings=128,
    )  # fmt: skip
    found = attnprobe.induction(BertModel(config).eval(), tokenizer=tokenizer)
    for name in ("induction", "duplicate", "previous"):
        np.testing.assert_allclose(found[name], 1 / 102, rtol=0.1)
    assert all(note.endswith(": none.") for note in found.notes)


@pytest.mark.parametrize("name", ["bert", "roberta", "t5", "gpt2"])
def test_what_is_drawn(saved, name):
    """Different ordinary tokens, twice, in the frame of the tokenizer; each sequence is another."""
    checkpoint = load_checkpoint(str(saved(name)))
    rows, first = drawn(checkpoint, 20, 50)
    tokenizer, frame = checkpoint.tokenizer, Frame.of(checkpoint.tokenizer)
    special = {*tokenizer.all_special_ids}
    copies = set()
    for ids in rows:
        once, again = ids[first : first + 20], ids[first + 20 : first + 40]
        assert ids == frame.around([*once, *again])
        assert once == again
        assert len({*once}) == 20
        assert special.isdisjoint(once)
        copies.add(tuple(once))
    assert len(copies) == 50
    assert drawn(checkpoint, 20, 50)[0] == rows
    others = [drawn(checkpoint, 20, 50, seed=1)[0], drawn(checkpoint, 20, 49)[0]]
    for other in others:
        assert copies.isdisjoint(tuple(ids[first : first + 20]) for ids in other)


def test_every_ordinary_token_is_as_likely(saved):
    checkpoint = load_checkpoint(str(saved("gpt2")))
    ordinary = ordinary_ids(checkpoint.tokenizer, 10_000)
    rows, _ = drawn(checkpoint, 20, 1000)
    counts = np.bincount(np.concatenate([row[:20] for row in rows]), minlength=max(ordinary) + 1)[ordinary]
    assert counts.sum() == 20_000
    expected = 20_000 / len(ordinary)
    assert np.abs(counts - expected).max() < 5 * expected**0.5


class Named:
    """A vocabulary of names, with what transformers says of it."""

    def __init__(self, names, special=(), added=()):
        self.names, self.all_special_ids, self.added_tokens_decoder = names, special, dict.fromkeys(added)

    def __len__(self):
        return len(self.names)

    def convert_ids_to_tokens(self, ids):
        return [self.names[place] for place in ids]


def test_what_is_no_piece_of_text_is_never_drawn():
    ordinary = ["the", "##s", "Ġdog", "[", "]", "<", "▁>", "[]", "a]", "<<"]
    others = ["[unused12]", "[PAD]", "<extra_id_0>", "<0x0A>", "<|user|>", "madeupword0002", None, ""]
    names = [*ordinary, *others, "special", "added", "beyond"]
    tokenizer = Named(names, special=[names.index("special")], added=[names.index("added")])
    found = ordinary_ids(tokenizer, names.index("beyond"))
    assert [names[token] for token in found] == ordinary


class TestRefusals:
    """Each in one sentence that says what to do."""

    @pytest.mark.parametrize(("name", "most"), [("bert", 91), ("gpt2", 92), ("bart", 91)])
    def test_too_long(self, saved, name, most):
        with pytest.raises(AttnprobeError) as caught:
            attnprobe.induction(saved(name), length=most + 1)
        found = re.fullmatch(
            r"length=(\d+) makes sequences of (\d+) tokens, more than the (\d+) that .* takes; give at most "
            r"length=(\d+)\.",
            str(caught.value),
        )
        assert found is not None
        assert [int(number) for number in found.groups()] == [most + 1, *map(int, found.groups()[1:3]), most]
        assert int(found[2]) > int(found[3])
        table = attnprobe.induction(saved(name), length=most, sequences=2)
        assert np.isfinite(table["induction"][0])

    def test_a_model_without_a_limit_takes_any_length(self, saved):
        table = attnprobe.induction(saved("t5"), length=60, sequences=2)
        assert np.isfinite(table["induction"][0])

    def test_few_tokens(self, saved):
        with pytest.raises(AttnprobeError, match=r"length=\d+ needs as many different tokens, and the vocab"):
            attnprobe.induction(saved("t5"), length=400)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"length": 1}, "length must be at least 2, not 1"),
            ({"sequences": 0}, "sequences must be at least 1, not 0"),
            ({"seed": -1}, "seed must be at least 0, not -1"),
            ({"texts": ["a"]}, "has no keyword 'texts'"),
        ],
    )
    def test_numbers(self, options, said):
        with pytest.raises(AttnprobeError, match=said):
            attnprobe.induction("demo", **options)


def test_jobs_with_other_seeds_add_up(saved):
    one, two = (attnprobe.induction(saved("bert"), length=9, sequences=5, seed=seed) for seed in (1, 2))
    merged = attnprobe.merge([one, two])
    assert {*merged["n"]} == {10}
    assert {*merged["dataset"]} == {"random tokens, repeated"}
    np.testing.assert_allclose(merged["induction"], (one["induction"] + two["induction"]) / 2)
    assert len(merged.notes) == 2
    with pytest.raises(AttnprobeError, match="count twice"):
        attnprobe.merge([one, one])
    with pytest.raises(AttnprobeError, match="another setting"):
        attnprobe.merge([one, attnprobe.induction(saved("bert"), length=8, sequences=5)])


def test_it_is_on_record(saved):
    found = attnprobe.induction(saved("bert"), length=9, sequences=5, seed=3)
    assert found.provenance["dataset"] == {
        "name": "random tokens, repeated", "length": 9, "sequences": 5, "seed": 3,
    }  # fmt: skip
    assert found.provenance["command"] == "attnprobe.induction"
    assert found.provenance["corpus"]["tokens"] == 5 * 20


@pytest.mark.parametrize("more", [{"batch_tokens": 1}, {"workers": 2, "threads": 2}, {"memory": "64MiB"}])
def test_batches_and_workers_change_nothing(saved, more):
    plain, other = (
        attnprobe.induction(saved("bert"), length=9, sequences=7, **options) for options in ({}, more)
    )
    torch.set_num_threads(1)
    for name in ("induction", "duplicate_se", "previous"):
        np.testing.assert_allclose(other[name], plain[name], atol=1e-7)


def test_the_census_does_not_hold_it():
    """It is about random tokens; in a census there would be no sequence to have it of."""
    assert "induction" not in attnprobe.census("demo", ["The parcel came late."]).data
    with pytest.raises(AttnprobeError, match="no 'induction'; it is measured by attnprobe induction"):
        attnprobe.census("demo", ["The parcel came late."], statistics=["induction"])
