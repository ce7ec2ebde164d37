"""Every count of every head against loops over eager maps, one sentence at a time."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from gold import gold_sentences, survey
from links_by_definition import count_links, load_eagerly

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.links import BY_RELATION, SYNTAX
from attnprobe.statistics.rules import ALL, OFFSETS
from attnprobe.sums.links import FAR

KINDS = {"bert": "encoder", "llama": "decoder"}
DIRECTIONS = {"dependent_to_head": "forward", "head_to_dependent": "backward"}


def called(key):
    """Call a key as the loops do: those of links at a distance by another label."""
    label, direction, *position = key
    name = f"{label}|{FAR}" if key[-1] == FAR else label
    return name, DIRECTIONS[direction], "".join(part for part in position if part != FAR)


@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_tiny_models(
    name: str, saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    """Of T5, all three kinds of attention, at both positions of a decoder that reads the text itself."""
    sentences = gold_sentences(texts * 2)
    counts = count_links(*load_eagerly(saved(name)), sentences, KINDS.get(name))
    run = survey(checkpoint(name), sentences, [SYNTAX], BY_RELATION)
    tally = run.measurement.sums["syntax"]
    assert (tally.left_out[1] > 0) == (name != "bert")
    for layer, place in enumerate(run.labels.places):
        links, hits, offsets = counts[str(place.kind or KINDS[name])]
        assert sum(number for (label, *_), number in links.items() if label.endswith(FAR)) > 50
        with_links = [key for key, of_layers in zip(tally.keys, tally.links, strict=True) if of_layers[layer]]
        assert {called(key) for key in with_links if key[0] != ALL} == set(links)
        for at, key in enumerate(tally.keys):
            label, *way = called(key)
            same = [each for each in links if [*each[1:]] == way and each[0] == label]
            if key[0] == ALL:
                far = key[-1] == FAR
                same = [each for each in links if [*each[1:]] == way and each[0].endswith(FAR) == far]
            assert tally.links[at, layer] == sum(links[each] for each in same), key
            for rule, offset in enumerate(map(int, OFFSETS)):
                right = tally.guessed[at, tally.kinds[layer], rule].sum()
                assert right == sum(offsets[*each, offset] for each in same), (key, offset)
            for head in range(tally.shape[1]):
                right = tally.hits[at, layer, head].sum()
                assert right == sum(hits[*each, place.layer, head] for each in same), (key, layer, head)


def test_batches_and_blocks_change_nothing(checkpoint: Callable[[str], Checkpoint], texts: list):
    """Also where a word's tokens come by in several blocks: with little memory, a block is a query."""
    request = checkpoint("bert"), gold_sentences(texts), [SYNTAX], BY_RELATION
    whole = survey(*request).measurement.sums["syntax"]
    with patch.multiple("attnprobe.model.reading.blocks", BLOCK_CPU=1, LEAST_QUERIES=1):
        parts = survey(*request, batch_tokens=64).measurement.sums["syntax"]
    order = [parts.keys.index(key) for key in whole.keys]
    assert sorted(parts.keys) == sorted(whole.keys)
    for name, values in whole.arrays().items():
        if name not in {"keys", "kinds", "left_out"} and not name.startswith("groups"):
            assert (parts.arrays()[name][order[: len(values)]] == values).all(), name
    assert (parts.left_out == whole.left_out).all()
