"""Divergences of heads of two models, against scipy on maps that the models give themselves."""

import copy
import re

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from transformers import AutoModel

from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.findings.comparison import ModelComparison
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.registry import choose
from attnprobe.survey.comparison import compare_checkpoints

SINGLE = [
    "the river bank was slow , and the dog ran to the water .",
    "stone",
    "She said: never walk under the train-stop at night!",
    "zyx qwv the the the the the the",
    "he walks slowly over the road between river and bank with unlikely kindness",
]


def documents(texts=SINGLE):
    return [Document(*text) if isinstance(text, tuple) else Document(text) for text in texts]


def changed(model, seed=3, scale=0.3):
    """Another checkpoint of the same shape."""
    other = copy.deepcopy(model)
    torch.manual_seed(seed)
    for weight in other.parameters():
        if weight.ndim == 2:
            weight.data += scale * weight.std() * torch.randn_like(weight)
    return other


def against(first, second, *, pairs=True, outputs=False, texts=SINGLE, **options) -> ModelComparison:
    return compare_checkpoints(
        (Checkpoint("one", *first), Checkpoint("other", *second)),
        (documents(texts), documents(texts)),
        CorpusOptions(**options),
        choose(["entropy"]),
        pairs=pairs,
        outputs=outputs,
        dataset="texts",
        facts={},
        progress=SilentProgress(),
    )


@torch.no_grad()
def eager(model, tokenizer, text):
    """Maps of one text, (layer, head, query, key)."""
    copied = copy.deepcopy(model)
    copied.set_attn_implementation("eager")
    given = tokenizer(*(text if isinstance(text, tuple) else (text,)), return_tensors="pt", truncation=True)
    given.pop("token_type_ids", None) if "token_type_ids" not in tokenizer.model_input_names else None
    return (
        torch.stack([maps[0] for maps in copied(**given, output_attentions=True).attentions]).double().numpy()
    )


def length(tokenizer, text):
    return len(tokenizer(text)["input_ids"])


def divergence(row, other_row):
    """Mean over queries of scipy's divergence, its distance squared."""
    return float(np.mean(jensenshannon(row, other_row, axis=-1) ** 2))


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_every_pair_is_what_scipy_gives(tiny, name):
    model, tokenizer = tiny(name)
    other = changed(model)
    comparison = against((model, tokenizer), (other, tokenizer))
    expected = []
    for text in SINGLE:
        tokens = length(tokenizer, text)
        ours, theirs = (eager(one, tokenizer, text).reshape(12, tokens, -1) for one in (model, other))
        expected.append([[divergence(a, b) for b in theirs] for a in ours])
    expected = np.array(expected)
    (kind,) = comparison.shared.kinds
    pairs = comparison.pairs[kind]
    assert pairs.average == pytest.approx(expected.mean(0), abs=2e-6)
    error = expected.std(0, ddof=1) / len(SINGLE) ** 0.5
    assert pairs.standard_error == pytest.approx(error, abs=2e-6)
    numbered = comparison.numbered
    assert numbered.average.ravel() == pytest.approx(expected.mean(0).diagonal(), abs=2e-6)


def test_without_special_tokens_rows_are_renormalised(tiny):
    model, tokenizer = tiny("bert")
    other = changed(model)
    comparison = against((model, tokenizer), (other, tokenizer), texts=SINGLE[:3], content_only=True)
    expected = []
    for text in SINGLE[:3]:
        ours, theirs = (eager(one, tokenizer, text)[:, :, 1:-1, 1:-1] for one in (model, other))
        ours, theirs = (one / one.sum(-1, keepdims=True) for one in (ours, theirs))
        expected.append([[divergence(ours[i, h], theirs[i, h]) for h in range(4)] for i in range(3)])
    assert comparison.numbered.average == pytest.approx(np.mean(expected, 0), abs=2e-6)


def test_an_encoder_and_an_encoder_with_a_decoder_share_the_encoder(tiny):
    from transformers import T5EncoderModel

    model, tokenizer = tiny("t5")
    encoder = T5EncoderModel(copy.deepcopy(model.config)).eval()  # it changes its configuration
    encoder.load_state_dict(model.state_dict(), strict=False)
    comparison = against((model, tokenizer), (encoder, tokenizer), texts=SINGLE[:3])
    assert [str(kind) for kind in comparison.shared.kinds] == ["encoder"]
    assert comparison.numbered.average == pytest.approx(0, abs=1e-7)
    assert any("Only one has a decoder" in note for note in comparison.labels.notes)


# Word by word


def test_models_of_other_shapes_have_pairs_and_no_heads_of_one_number(tiny):
    model, tokenizer = tiny("bert")
    config = copy.deepcopy(model.config)
    config.num_attention_heads, config.num_hidden_layers = 2, 4
    torch.manual_seed(0)
    other = AutoModel.from_config(config).eval()
    comparison = against((model, tokenizer), (other, tokenizer), texts=SINGLE[:4])
    (kind,) = comparison.shared.kinds
    assert comparison.pairs[kind].average.shape == (12, 8)
    assert comparison.numbered is None
    assert not comparison.shared.alike
    with pytest.raises(AttnprobeError, match="can't be matched layer by layer"):
        comparison.shared.check_layers(("one", "other"), "layer")
    other.resize_token_embeddings(20)
    with pytest.raises(AttnprobeError, match="other knows only 20; its tokenizer belongs to another model"):
        against((model, tokenizer), (other, tokenizer))


def test_maps_of_words_are_sums_over_keys_and_means_over_queries(tiny):
    model, tokenizer = tiny("bert")
    other, other_tokenizer = tiny("roberta")
    texts = ["the river bank was slow", "she walked over the road"]
    comparison = against((model, tokenizer), (other, other_tokenizer), texts=texts)
    assert any("word by word" in note for note in comparison.labels.notes)
    expected = []
    for text in texts:
        maps = []
        for own_model, own_tokenizer in ((model, tokenizer), (other, other_tokenizer)):
            ends = own_tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
            words = [match.span() for match in re.finditer(r"\w+", text)]
            member = np.array([[a < stop and b > max(start, a) for a, b in ends] for start, stop in words])
            member = member.astype(float)
            rows = (member / member.sum(1, keepdims=True)) @ eager(own_model, own_tokenizer, text)
            to_words = rows @ member.T
            rest = rows.sum(-1, keepdims=True) - to_words.sum(-1, keepdims=True)
            maps.append(np.concatenate([to_words, rest], -1).reshape(12, len(words), -1))
        expected.append([[divergence(a, b) for b in maps[1]] for a in maps[0]])
    (kind,) = comparison.shared.kinds
    assert comparison.pairs[kind].average == pytest.approx(np.mean(expected, 0), abs=2e-6)
