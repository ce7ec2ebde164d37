"""Which models get their positions from a table alone, and what they compute once all are alike."""

import copy

import pytest
import torch

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import equalise_positions
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.verifying.dry_run import examine
from attnprobe.model.verifying.positions import find_positions
from attnprobe.model.verifying.probing import snapshot

TABLES = {
    "bert": ["embeddings.position_embeddings"],
    "roberta": ["embeddings.position_embeddings"],
    "distilbert": ["embeddings.position_embeddings"],
    "albert": ["embeddings.position_embeddings"],
    "electra": ["embeddings.position_embeddings"],
    "xlm": ["position_embeddings"],
    "gpt2": ["wpe"],
    "bart": ["encoder.embed_positions", "decoder.embed_positions"],
    "marian": ["encoder.embed_positions", "decoder.embed_positions"],  # fixed sines, looked up all the same
}
NO_TABLE = "it looks up no table of absolute positions"
BESIDE = "beside its table of positions, something else tells tokens apart"
REFUSED = {
    "modernbert": f"{NO_TABLE}; its positions are rotary",
    "llama": f"{NO_TABLE}; its positions are rotary",
    "t5": f"{NO_TABLE}; its positions are relative",
    "deberta-v2": f"{BESIDE}; its positions are relative",
    "mpnet": f"{BESIDE}; its positions are relative",
    "mobilebert": BESIDE,  # which also reads the embeddings of neighbours
}


@pytest.fixture
def asked(copied):
    def ask(name, change=lambda _: None):
        model, tokenizer = copied(name)
        change(model)
        return examine(Checkpoint(name, model, tokenizer))

    return ask


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_found(asked, name):
    found = find_positions(*asked(name))
    assert list(found.tables) == TABLES[name]
    assert "rows over a repeated token are uniform" in found.evidence


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_other_positions_is_refused(asked, name):
    with pytest.raises(UnsupportedModelError) as caught:
        find_positions(*asked(name))
    assert REFUSED[name] in caught.value.reason


def test_a_small_bias_beside_the_table_shows(asked):
    """MPNet's relative biases as they are before training, of a few hundredths."""

    def shy(model):
        with torch.no_grad():
            model.encoder.relative_attention_bias.weight.mul_(0.02)

    with pytest.raises(UnsupportedModelError, match=BESIDE):
        find_positions(*asked("mpnet", shy))


def test_a_table_of_nothing_makes_no_difference(asked):
    def emptied(model):
        model.embeddings.position_embeddings.weight.data.zero_()

    with pytest.raises(UnsupportedModelError, match="makes no difference"):
        find_positions(*asked("bert", emptied))


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "bart"])
def test_an_encoder_without_positions_knows_no_order(asked, name):
    """Its states of tokens in another order are the same states in that order."""
    checkpoint, architecture = asked(name)
    found = find_positions(checkpoint, architecture)
    body = checkpoint.body.get_encoder() if name == "bart" else checkpoint.body
    tables = [table.removeprefix("encoder.") for table in found.tables if not table.startswith("decoder")]
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(10, 60, (2, 14), generator=generator)
    order = torch.randperm(14, generator=generator)

    def states(given):
        with torch.inference_mode():
            return body(input_ids=given)[0]

    assert not torch.allclose(states(ids[:, order]), states(ids)[:, order], atol=1e-2)
    with equalise_positions(body, tables, found.at):
        torch.testing.assert_close(states(ids[:, order]), states(ids)[:, order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "position"), [("bert", 1), ("roberta", 3), ("albert", 1), ("gpt2", 0), ("distilbert", 1)]
)
def test_all_get_the_position_of_the_first_token_of_the_text(asked, name, position):
    """The one behind the frame: what the model computes when it is given that position for every token."""
    checkpoint, architecture = asked(name)
    found, body = find_positions(checkpoint, architecture), checkpoint.body
    ids = torch.randint(10, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = body(input_ids=ids, position_ids=torch.full_like(ids, position))[0]
        with equalise_positions(body, found.tables, found.at):
            alike = body(input_ids=ids)[0]
        usual = body(input_ids=ids)[0]
    torch.testing.assert_close(alike, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(alike, usual, atol=1e-2)


def test_the_model_is_left_as_it_was(asked):
    checkpoint, architecture = asked("bart")
    before, weights = snapshot(checkpoint.body), copy.deepcopy(checkpoint.body.state_dict())
    hooks = [dict(module._forward_hooks) for module in checkpoint.body.modules()]
    found = find_positions(checkpoint, architecture)
    with pytest.raises(RuntimeError), equalise_positions(checkpoint.body, found.tables, found.at):
        raise RuntimeError
    assert snapshot(checkpoint.body) == before
    assert [dict(module._forward_hooks) for module in checkpoint.body.modules()] == hooks
    assert all(torch.equal(weights[name], now) for name, now in checkpoint.body.state_dict().items())
