"""Random tokens, repeated: a planted head, values from a model's own maps, and what is drawn."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

import attnprobe
from attnprobe.corpus.batch import replace_repeated
from attnprobe.corpus.tokenizer import Frame
from attnprobe.model.load import load_checkpoint
from attnprobe.run.repeated import RepeatedTokens, list_ordinary_tokens

LENGTH, SEQUENCES = 12, 6


def drawn(checkpoint, length=LENGTH, sequences=SEQUENCES, seed=42):
    """Draw the sequences of a model, and give them with the number of special tokens before the first."""
    frame = Frame.of(checkpoint.tokenizer)
    sequences_drawn = RepeatedTokens(length, sequences, seed).draw(checkpoint, frame)
    return [sequence.ids for sequence in sequences_drawn], len(frame.before)


def periods(rows, first, length):
    """Find how many tokens lie between the two copies of each sequence."""
    distances = []
    for ids in rows:
        text = ids[first : first + 2 * length]
        again = next(place for place, token in enumerate(text) if token in text[:place])
        distances.append(again - text.index(text[again]))
    return distances


def unrepeated(rows, checkpoint):
    """Replace what comes again by the tokens that attnprobe draws, which are new ones."""
    ordinary, special = list_ordinary_tokens(checkpoint), {*checkpoint.tokenizer.all_special_ids}
    rows_without = []
    for ids in rows:
        row = np.array(ids, np.int32)
        fresh = replace_repeated(row, np.isin(row, list(special)), ordinary).tolist()
        kept = [new == old for new, old in zip(fresh, ids, strict=True)]
        assert kept == [token in special or token not in ids[:place] for place, token in enumerate(ids)]
        ordinary_of = [token for token in fresh if token not in special]
        assert len({*ordinary_of}) == len(ordinary_of)
        rows_without.append(fresh)
    return rows_without


def by_definition(maps, without, first, length, between):
    """Compute the three scores by numpy from maps of sequences (sequence, layer, head, query, key).

    - without: the maps of the same sequences without a repetition.
    - first: where the text begins.
    - between: how far the copies of each sequence are apart.
    """
    each = {"induction": [], "duplicate": [], "previous": []}
    for here, there, period in zip(maps, without, between, strict=True):
        queries = np.arange(first + 2 * length - period, first + 2 * length)
        for name, places in (("induction", queries - period + 1), ("duplicate", queries - period)):
            each[name].append((here[..., queries, places] - there[..., queries, places]).mean(-1))
        each["previous"].append(here[..., queries, queries - 1].mean(-1))
    return {
        name: (np.mean(values, 0).ravel(), (np.std(values, 0, ddof=1) / len(values) ** 0.5).ravel())
        for name, values in each.items()
    }


def check(table, expected, rows=slice(None)):
    for name, (mean, error) in expected.items():
        np.testing.assert_allclose(table[name][rows], mean, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(table[f"{name}_se"][rows], error, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["demo", "llama"])
def test_values_from_its_own_maps(saved, name):
    folder = name if name == "demo" else saved(name)
    table = attnprobe.induction(folder, length=LENGTH, sequences=SEQUENCES)
    checkpoint = load_checkpoint(str(folder))
    rows, first = drawn(checkpoint)
    checkpoint.model.set_attn_implementation("eager")

    def maps(ids):
        with torch.inference_mode():
            gives = checkpoint.body(input_ids=torch.tensor(ids), output_attentions=True).attentions
        return torch.stack(gives, 1).double().numpy()

    between = periods(rows, first, LENGTH)
    check(table, by_definition(maps(rows), maps(unrepeated(rows, checkpoint)), first, LENGTH, between))
    assert table["n"].tolist() == [SEQUENCES] * len(table)


def test_values_of_an_encoder_and_its_decoder(saved):
    table = attnprobe.induction(saved("bart"), length=LENGTH, sequences=SEQUENCES)
    checkpoint = load_checkpoint(str(saved("bart")))
    rows, first = drawn(checkpoint)
    checkpoint.model.set_attn_implementation("eager")

    def maps(ids):
        inputs = {
            "input_ids": torch.tensor(ids),
            "decoder_input_ids": torch.tensor([checkpoint.shift_right(row) for row in ids]),
        }
        with torch.inference_mode():
            return checkpoint.body(**inputs, output_attentions=True)

    with_copies, without = maps(rows), maps(unrepeated(rows, checkpoint))
    kinds, between = np.array(table["attention"]), periods(rows, first, LENGTH)
    for kind, begin in (("encoder", first), ("decoder", first + 1)):  # behind the token that starts it
        here, there = (
            torch.stack(gives[f"{kind}_attentions"], 1).double().numpy() for gives in (with_copies, without)
        )
        check(table, by_definition(here, there, begin, LENGTH, between), kinds == kind)
    cross = kinds == "cross"
    assert all(np.isnan(table[name][cross]).all() for name in ("induction", "duplicate", "previous"))


def planted(tokenizer, heads=2):
    """Make a model of one layer whose weights are 0, but for what its embeddings are."""
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=64 * heads, num_attention_heads=heads, num_hidden_layers=1,
        intermediate_size=8, max_position_embeddings=64,
    )  # fmt: skip
    model = BertModel(config).eval().requires_grad_(False)
    for weight in model.parameters():
        weight.zero_()
    model.embeddings.LayerNorm.weight.fill_(1)
    return model, model.encoder.layer[0].attention.self


def test_a_fixed_distance_is_no_content(tiny):
    """Positions are all there is, and each head looks a fixed number of places back: it finds nothing."""
    model, attention = planted(tiny("bert")[1])
    model.embeddings.position_embeddings.weight[:, :64] = torch.eye(64)
    for head, step in enumerate((LENGTH - 1, LENGTH)):  # what came next, and the copy, LENGTH places apart
        rows = slice(64 * head, 64 * head + 64)
        attention.query.weight[rows, :64] = torch.eye(64)
        attention.key.weight[rows, :64] = torch.eye(64).roll(step, 0)
    attention.query.weight.mul_(10)
    table = attnprobe.induction(model, length=LENGTH, sequences=SEQUENCES, tokenizer=tiny("bert")[1])
    for name in ("induction", "duplicate", "previous"):
        np.testing.assert_allclose(table[name], [0, 0], atol=1e-6)


def test_planted_heads_are_found(tiny):
    """One head looks for its own token elsewhere; one for the token before it, which its place holds too."""
    tokenizer = tiny("bert")[1]
    model, attention = planted(tokenizer, heads=4)
    draw = torch.Generator().manual_seed(0)
    codes = torch.nn.functional.normalize(torch.randn(len(tokenizer), 60, generator=draw), dim=1)

    def embedded(input_ids=None, **_):
        """Give each place its token, the token before it, and a little that no place shares."""
        of_tokens = codes[input_ids]
        before = torch.nn.functional.pad(of_tokens[:, :-1], (0, 0, 1, 0))
        places = torch.linspace(0, 1, of_tokens.shape[1])[None, :, None].expand(len(of_tokens), -1, 1)
        hidden = torch.zeros(*input_ids.shape, 256)
        hidden[..., :60], hidden[..., 64:124], hidden[..., 128:129] = of_tokens, before, places
        return hidden

    model.embeddings.forward = embedded
    token, before, place = slice(0, 60), slice(64, 124), 128
    for head, looked_for in enumerate((before, token)):  # what follows the token, and the token itself
        attention.query.weight[64 * head : 64 * head + 60, token] = 400 * torch.eye(60)
        attention.key.weight[64 * head : 64 * head + 60, looked_for] = torch.eye(60)
        attention.query.bias[64 * head + 60] = 400  # of several, the one that comes first
        attention.key.weight[64 * head + 60, place] = -0.3
    table = attnprobe.induction(model, length=LENGTH, sequences=SEQUENCES, tokenizer=tokenizer)
    np.testing.assert_allclose(table["induction"], [1, 0, 0, 0], atol=0.02)
    np.testing.assert_allclose(table["duplicate"], [0, 1, 0, 0], atol=0.02)
