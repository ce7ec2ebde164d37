"""Copying: planted heads, values from a model's own weights, and models whose heads can't be asked."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

import attnprobe
from attnprobe.corpus.tokenizer import Frame
from attnprobe.model.check.projections import find_unembedding
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.repeated import RepeatedTokens

LENGTH, SEQUENCES = 8, 5


def gpt2(tokenizer, layers=1):
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=96, n_head=3, n_layer=layers, n_positions=64,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval().requires_grad_(False)


def test_planted_heads(tiny):
    """One head writes what it reads, one writes the opposite, and one what has nothing to do with it."""
    tokenizer = tiny("gpt2")[1]
    model = gpt2(tokenizer)
    model.transformer.wpe.weight.zero_()
    model.transformer.wte.weight.normal_()
    model.transformer.wte.weight[:, 32:] = 0  # tokens lie in as many directions as a head has
    layer = model.transformer.h[0].attn
    values, output = (
        layer.c_attn.weight[:, 2 * 96 :],
        layer.c_proj.weight,
    )  # (input, output), as GPT-2 has them
    values.zero_(), output.zero_()
    read = torch.zeros(96, 32)
    read[:32] = torch.eye(32)
    for head, way in enumerate((torch.eye(32), -torch.eye(32), torch.randn(32, 32))):
        values[:, 32 * head : 32 * head + 32] = read
        output[32 * head : 32 * head + 32, :32] = way
    table = attnprobe.induction(model, length=LENGTH, sequences=20, tokenizer=tokenizer)
    np.testing.assert_allclose(table["copying"][:2], [1, -1], atol=0.02)
    assert abs(table["copying"][2]) < 4 * table["copying_se"][2] + 0.1
    assert np.abs(table["induction"]).max() < 0.05  # to copy is not to match a prefix


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_values_from_its_own_weights(tiny, name):
    """Head by head, key by key: what is written goes through the model's own norm and head in numpy."""
    tokenizer = tiny(name)[1]
    if name == "gpt2":
        model = gpt2(tokenizer, layers=2)
        model.transformer.ln_f.weight.uniform_(0.2, 2)
    else:
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=96, num_attention_heads=3, num_hidden_layers=2,
            intermediate_size=16, max_position_embeddings=64,
        )  # fmt: skip
        model = BertForMaskedLM(config).eval().requires_grad_(False)
        model.cls.predictions.transform.LayerNorm.weight.uniform_(0.2, 2)
        model.bert.encoder.layer[-1].output.LayerNorm.weight.uniform_(0.2, 2)
    table = attnprobe.induction(model, length=LENGTH, sequences=SEQUENCES, tokenizer=tokenizer)
    checkpoint = Checkpoint("tiny", model, tokenizer)
    drawn = RepeatedTokens(LENGTH, SEQUENCES, 42).draw(checkpoint, Frame.of(tokenizer))
    special = {*tokenizer.all_special_ids}
    model.set_attn_implementation("eager")
    scores = []
    for ids in (sequence.ids for sequence in drawn):
        layers = model.transformer.h if name == "gpt2" else model.bert.encoder.layer
        with torch.inference_mode():
            gives = model(input_ids=torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
            states = zip(layers, gives.hidden_states, strict=False)
            given = [
                (layer.ln_1(state) if name == "gpt2" else layer.attention.self.value(state))[0]
                .double()
                .numpy()
                for layer, state in states
            ]
            maps = gives.attentions
        ordinary = [place for place, token in enumerate(ids) if token not in special]
        once = {ids[place]: place for place in ordinary}
        for at, layer in enumerate(layers):
            for head in range(3):
                columns = slice(32 * head, 32 * head + 32)
                if name == "gpt2":
                    weight = layer.attn.c_attn.weight[:, 2 * 96 :][:, columns].double().numpy()
                    bias = layer.attn.c_attn.bias[2 * 96 :][columns].double().numpy()
                    values = given[at] @ weight + bias
                    written = values @ layer.attn.c_proj.weight[columns].double().numpy()
                else:
                    weight = layer.attention.output.dense.weight[:, columns].double().numpy()
                    written = given[at][:, columns] @ weight.T
                logits = direct(model, written)
                score = np.full(len(ids), 0.0)
                for key in ordinary:
                    others = [token for token in once if token != ids[key]]
                    score[key] = np.sign(logits[key, ids[key]] - logits[key, others]).mean()
                rows = maps[at][0, head].double().numpy()[np.ix_(ordinary, ordinary)]
                scores.append((rows @ score[ordinary] / rows.sum(1)).mean())
    expected = np.reshape(scores, (SEQUENCES, -1))
    np.testing.assert_allclose(table["copying"], expected.mean(0), atol=1e-5)
    np.testing.assert_allclose(table["copying_se"], expected.std(0, ddof=1) / SEQUENCES**0.5, atol=1e-5)


def direct(model, written):
    """Take what is written to logits: norms centre and have a gain, and what is not linear is left out."""

    def normed(states, norm):
        return (states - states.mean(-1, keepdims=True)) * norm.weight.double().numpy()

    if isinstance(model, GPT2LMHeadModel):
        return normed(written, model.transformer.ln_f) @ model.lm_head.weight.double().numpy().T
    head = model.cls.predictions.transform
    states = normed(written, model.bert.encoder.layer[-1].output.LayerNorm)
    states = normed(states @ head.dense.weight.double().numpy().T, head.LayerNorm)
    return states @ model.cls.predictions.decoder.weight.double().numpy().T


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_the_way_to_the_logits_is_found(tiny, name):
    """A small step of the last states moves logits as the matrix says, to first order and up to the norm."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    config, tokenizer = tiny(name)[0].config, tiny(name)[1]
    torch.manual_seed(0)
    auto = AutoModelForCausalLM if name == "llama" else AutoModelForSeq2SeqLM
    model = auto.from_config(config).eval().requires_grad_(False)
    norm = model.model.norm if name == "llama" else model.decoder.final_layer_norm
    norm.weight.uniform_(0.2, 2)
    unembedding = find_unembedding(Checkpoint("tiny", model, tokenizer))
    ids = torch.tensor([[3, 5]])
    expected = model.get_output_embeddings().weight[ids] * norm.weight
    torch.testing.assert_close(unembedding.rows(ids), expected, rtol=1e-3, atol=1e-4)
