"""Embeddings of tiny models, against plain torch and against ``SentenceTransformer.encode``."""

from contextlib import nullcontext
from itertools import zip_longest

import numpy as np
import pytest
import torch
import transformers
from sentence_layouts import LAYOUTS, TEXTS, draw_dense

from attnprobe.corpus.document import Document
from attnprobe.intervention.objectives.embeddings import embed
from attnprobe.model.load import load_checkpoint
from attnprobe.model.location import LoadOptions
from attnprobe.model.reading.gates import gate_attention
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise


def embed_texts(folder, texts, prompt=None, keep=None, roles=()):
    """Embed texts, with some heads alone if there is a mask of them (layer, head)."""
    checkpoint = load_checkpoint(str(folder), LoadOptions(device="cpu", prompt=prompt))
    documents = [Document(text, role=role) for text, role in zip_longest(texts, roles, fillvalue="")]
    found = {}
    with (
        tokenise(checkpoint, documents, CorpusOptions()) as corpus,
        nullcontext() if keep is None else gate_attention(checkpoint.body) as gates,
        torch.no_grad(),
    ):
        if gates is not None:
            gates.set(torch.from_numpy(keep).float()[None])
        for batch in corpus.batches:
            own = [roles[member] for member in batch.members] if roles else []
            found |= dict(zip(batch.members.tolist(), embed(checkpoint, batch, own).numpy(), strict=True))
    return np.stack([found[number] for number in range(len(found))])


@pytest.fixture(params=LAYOUTS, scope="module")
def layout(request, saved, tmp_path_factory):
    found = LAYOUTS[request.param]
    return found, found.write(tmp_path_factory.mktemp("layouts") / "model", saved)


def reckon(layout, folder, text):
    """Reckon an embedding step by step."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / layout.first)
    model = transformers.AutoModelForTextEncoding if layout.model == "t5" else transformers.AutoModel
    model = model.from_pretrained(folder / layout.first).eval()
    text = layout.prompt + text
    text = text.lower() if layout.settings.get("do_lower_case") else text
    longest = layout.settings.get("max_seq_length", 64)
    encoded = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
    with torch.inference_mode():
        states = model(**encoded)[0][0]
    places = torch.arange(len(states))
    pooled = places
    if layout.prompt and layout.pooling.get("include_prompt") is False:
        pooled = places[len(tokenizer(layout.prompt)["input_ids"]) - 1 :]
    of = {
        "cls": lambda x: x[0],
        "max": lambda x: x.max(0).values,
        "mean": lambda x: x.mean(0),
        "mean_sqrt_len_tokens": lambda x: x.sum(0) / len(x) ** 0.5,
        "weightedmean": lambda x: ((pooled + 1.0) @ x) / (pooled + 1.0).sum(),
        "lasttoken": lambda x: x[-1],
    }
    found = torch.cat([of[mode](states[pooled]) for mode in layout.modes])
    if layout.dense:
        weights = draw_dense()
        found = torch.tanh(weights["linear.weight"] @ found + weights["linear.bias"])
    found = found[: layout.described.get("truncate_dim")]
    return (found / found.norm() if layout.normalize else found).numpy()


def test_it_is_what_torch_makes(layout):
    expected = np.stack([reckon(*layout, text) for text in TEXTS])
    np.testing.assert_allclose(embed_texts(layout[1], TEXTS), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_it_is_what_encode_makes(layout):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(layout[1]), device="cpu")
    np.testing.assert_allclose(embed_texts(layout[1], TEXTS), model.encode(TEXTS), atol=1e-5, rtol=1e-5)
    if "passage" in model.prompts:
        expected = model.encode(TEXTS, prompt_name="passage")
        np.testing.assert_allclose(embed_texts(layout[1], TEXTS, "passage"), expected, atol=1e-5, rtol=1e-5)
        expected = model.encode(TEXTS, prompt="")
        np.testing.assert_allclose(embed_texts(layout[1], TEXTS, "none"), expected, atol=1e-5, rtol=1e-5)


#: Of one length in pairs, so that a batch holds a query and a passage.
ROLES = [(text, role) for text in TEXTS for role in ("query", "document")]


def test_queries_and_passages_have_their_own_prompts(saved, tmp_path):
    """One alone is embedded as with the prompt of that name, whoever shares its batch."""
    folder = LAYOUTS["a prompt that is not pooled"].write(tmp_path / "model", saved)
    texts, roles = zip(*ROLES, strict=True)
    alone = {
        role: embed_texts(folder, TEXTS, name) for role, name in (("query", "query"), ("document", "passage"))
    }
    expected = np.stack([alone[role][TEXTS.index(text)] for text, role in ROLES])
    np.testing.assert_allclose(embed_texts(folder, texts, roles=roles), expected, atol=1e-6)
    assert np.abs(alone["query"] - alone["document"]).max() > 0.01
    # A prompt that is named is that of queries; without any, there is none for either.
    both = embed_texts(folder, texts, "passage", roles=roles)
    np.testing.assert_allclose(both, alone["document"][[TEXTS.index(text) for text in texts]], atol=1e-6)
    bare = embed_texts(folder, TEXTS, "none")
    np.testing.assert_allclose(embed_texts(folder, texts, "none", roles=roles)[::2], bare, atol=1e-6)
