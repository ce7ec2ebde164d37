"""Controls against models that are changed by hand: other tokens."""

import copy

import numpy as np
import torch

import attnprobe
from attnprobe.corpus.document import Document
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise

TEXTS = [
    "the dog ran over the road by the river , and the train was slow",
    "stone",
    "is it late ? it was always late",
    "a quick bird ran under the green house , by night and day",
    "she said : never walk under the train at night",
]
MEASURES = ("previous", "next", "offset_share")


def by_definition(maps, offsets):
    """Compute previous, next and the share of queries that look most at an offset, from maps by numpy.

    - maps: for each text (layer, head, query, key).
    - offsets: for each head of each layer, its offset; None where it has none.
    """
    by_measure = {name: [] for name in MEASURES}
    for rows in maps:
        layers, heads, length, _ = rows.shape
        with np.errstate(invalid="ignore"):
            for name, step in (("previous", -1), ("next", 1)):
                diagonal = np.diagonal(rows, step, 2, 3)
                by_measure[name].append(diagonal.mean(-1) if length > 1 else np.full((layers, heads), np.nan))
        shares = np.full((layers, heads), np.nan)
        for layer in range(layers):
            for head in range(heads):
                offset = offsets[layer][head]
                queries = [query for query in range(length) if 0 <= query + offset < length]
                if queries and 2 * len(queries) >= length:
                    peaks = rows[layer, head].argmax(-1)
                    shares[layer, head] = np.mean([peaks[query] == query + offset for query in queries])
        by_measure["offset_share"].append(shares)
    return {name: np.nanmean(values, 0).ravel() for name, values in by_measure.items()}


def eager_maps(model, rows):
    """Run token ids one text at a time, and give the model's own maps."""
    model = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    every = []
    for ids in rows:
        with torch.inference_mode():
            maps = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        every.append(torch.cat(maps).double().numpy())
    return every


def tokens(folder, *, seed=None):
    """Tokenise the texts, shuffled or not."""
    checkpoint = load_checkpoint(str(folder))
    with tokenise(checkpoint, map(Document, TEXTS), CorpusOptions()) as corpus:
        batches = corpus.batches if seed is None else corpus.batches.shuffle(seed)
        rows = {}
        for batch in batches:
            rows |= dict(zip(batch.members.tolist(), batch.ids.tolist(), strict=True))
    return checkpoint.body, [rows[member] for member in sorted(rows)]


def test_shuffled_against_eager_maps_of_the_shuffled_tokens(saved):
    table = attnprobe.positional(saved("bert"), TEXTS, control=True, seed=5)
    model, rows = tokens(saved("bert"), seed=5)
    assert rows != tokens(saved("bert"))[1]
    offsets = np.array(table["offset"]).reshape(3, 4)
    expected = by_definition(eager_maps(model, rows), offsets)
    for measure in MEASURES:
        np.testing.assert_allclose(
            table[f"{measure}_shuffled"], expected[measure], atol=1e-5, err_msg=measure
        )
    plain = attnprobe.positional(saved("bert"), TEXTS)
    for column in plain.data:
        assert table[column].tolist() == plain[column].tolist()
    assert not np.allclose(table["previous_shuffled"], table["previous"], atol=1e-3)
