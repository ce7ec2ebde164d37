"""Gold links of targets that are cut, and texts of which only some have a target; what heads find of links in
every kind of attention is asked in tests/statistics/links."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from attnprobe.attention.tokens import TokenSpan
from attnprobe.corpus.document import Document
from attnprobe.corpus.links import read_linked_rows
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.examples import check_targets
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise


def read(checkpoint: Checkpoint, ids: list[int], span: TokenSpan) -> str:
    tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
    return tokenizer.decode(ids[span.start : span.stop]).strip()


@pytest.mark.parametrize("longest", [2, 7])
def test_targets_that_are_cut(checkpoint: Callable[[str], Checkpoint], longest: int):
    """A character of which some bytes are gone is no word."""
    model = copy.deepcopy(checkpoint("bart").model)
    model.config.max_target_positions = longest
    loaded = replace(checkpoint("bart"), model=model)
    target = "the 👩 dog"
    words = [[0, 3], [4, 5], [6, 9]]
    links = [{"source": words[1], "target": [0, 3], "source_in": "target"}]
    links += [{"source": words[2], "target": words[0], "source_in": "target", "target_in": "target"}]
    row = {"text": "the dog", "target": target, "words_target": words, "links": links}
    options = CorpusOptions(truncate=True)
    with tokenise(loaded, read_linked_rows([row]), options, labelled=True) as corpus:
        (batch,) = corpus.batches
        ids = batch.inputs["decoder_input_ids"][0].tolist()
        assert len(ids) <= longest
        words_read = [read(loaded, ids, word) for word in batch.target_annotations[0].words]
        whole = read(loaded, ids, TokenSpan(2, len(ids))).split()
        assert words_read == [word for word in target.split() if word in whole]
        assert batch.target_annotations[0].cut == (words_read != target.split())
        assert corpus.reading.links == 2
        assert corpus.reading.links_lost == 2 - ("👩" in words_read) - ("dog" in words_read)


@pytest.mark.parametrize("label", [None, "ein Hund"])
def test_the_first_text_decides_whether_targets_are_read(checkpoint: Callable[[str], Checkpoint], label: Any):
    documents = [Document("a dog", label=label)] * 2
    given, labelled = check_targets(checkpoint("t5"), iter(documents))
    assert (list(given), labelled) == (documents, label is not None)


def test_a_target_that_the_first_lacks(checkpoint: Callable[[str], Checkpoint]):
    given, _ = check_targets(checkpoint("t5"), [Document("a dog"), Document("a cat", label="ein Hund")])
    with pytest.raises(AttnprobeError, match="'a cat' has a target, but the first text has none"):
        list(given)
