"""What the decoder beside an encoder reads, against the maps of the model itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import entr

import attnprobe
from attnprobe.corpus.document import Document
from attnprobe.errors import AttnprobeError
from attnprobe.run.examples import tokenise_targets
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise

KNOWN = ["a", "dog", "ran", "over", "the", "red", "house"]
TEXTS = ["the river bank was slow", "a bird", "is it late ?"]
TARGETS = ["the dog ran over the red house", "a cat ran", "never by night"]
#: A table of both, and how its columns are named.
BOTH = {"text": TEXTS, "target": TARGETS}
NAMED = {"text_column": "text", "label_column": "target"}


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_targets(tiny: Callable[[str], Any], name: str):
    """Cross-attention is from the target, shifted by one, to the text."""
    model, tokenizer = tiny(name)
    table = attnprobe.census(model, BOTH, tokenizer=tokenizer, statistics=["entropy"], **NAMED)
    start, entropies = model.config.decoder_start_token_id, []
    for text, target in zip(TEXTS, TARGETS, strict=True):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        read = torch.tensor([[start, *tokenizer(target)["input_ids"][:-1]]])
        assert read.shape != ids.shape
        eager = type(model)(model.config).eval()
        eager.load_state_dict(model.state_dict())
        eager.set_attn_implementation("eager")
        with torch.inference_mode():
            given = eager(input_ids=ids, decoder_input_ids=read, output_attentions=True)
        maps = [*given.encoder_attentions, *given.decoder_attentions, *given.cross_attentions]
        entropies.append(np.stack([entr(rows[0].double().numpy()).sum(-1).mean(-1) for rows in maps]))
    np.testing.assert_allclose(table["entropy"], np.mean(entropies, 0).ravel(), atol=1e-5)
    without = attnprobe.census(model, TEXTS, tokenizer=tokenizer, statistics=["entropy"])
    moved = np.abs(without["entropy"] - table["entropy"])
    assert moved[table["attention"] == "encoder"].max() < 1e-6
    assert moved[table["attention"] != "encoder"].min() > 1e-5


@pytest.mark.parametrize("labelled", [False, True])
def test_many_texts_keep_their_targets(checkpoint: Callable[[str], Any], labelled: bool):
    """Texts are read some hundred at a time."""
    loaded = checkpoint("t5")
    tokenizer, texts = loaded.tokenizer, [" ".join(KNOWN[: 1 + n % 7]) + f" {n}" for n in range(1200)]
    documents = [Document(text, label=f"{n} the") for n, text in enumerate(texts)]
    with tokenise(loaded, documents, CorpusOptions(), labelled=labelled) as corpus:
        assert corpus.sequences == len(texts)
        for batch in corpus.batches:
            for row, member in enumerate(batch.members):
                read = documents[member].label if labelled else texts[member]
                ids = batch.inputs["decoder_input_ids"][row].tolist()
                assert ids == [loaded.start, *tokenizer(read)["input_ids"][:-1]]


def test_an_encoder_reads_no_targets(tiny: Callable[[str], Any]):
    model, tokenizer = tiny("bert")
    with pytest.raises(AttnprobeError, match=r"no decoder beside an encoder .* leave out --label-column"):
        attnprobe.census(model, BOTH, tokenizer=tokenizer, **NAMED)


def test_a_target_without_a_token(checkpoint: Callable[[str], Any], tiny: Callable[[str], Any]):
    unframed = replace(checkpoint("bart"), target_tokenizer=tiny("bert-unframed")[1])
    with pytest.raises(AttnprobeError, match="The target '' gives not a single token"):
        tokenise_targets(unframed, ["a dog", ""])
