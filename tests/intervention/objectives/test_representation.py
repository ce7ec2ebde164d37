"""The pooled state, and the directions it is pushed in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from attnprobe.corpus.document import Document
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.model.checkpoint import Checkpoint

Headed = Callable[..., Checkpoint]


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_answer(headed: Headed, documents: Any, benched: Any, inputs_of: Any, name: str):
    checkpoint = headed(name, "representation")
    some = [d for d in documents("representation") if d.pair is None]
    with benched(checkpoint, some) as bench:
        assert bench.objective.name == "representation"
        for batch in bench.corpus.batches:
            answer = bench.objective.answer(batch)
            directions = bench.objective.directions(batch, answer.state.shape[-1])
            np.testing.assert_allclose((directions**2).sum(-1), 1)
            for row, member in enumerate(batch.members):
                inputs = inputs_of(checkpoint.tokenizer, some[member])
                if name in {"bart", "t5"}:  # the decoder reads the text too, behind its first token
                    start = torch.tensor([[checkpoint.model.config.decoder_start_token_id]])
                    inputs["decoder_input_ids"] = torch.cat([start, inputs["input_ids"][:, :-1]], 1)
                state = checkpoint.model(**inputs)[0][0].mean(0)
                torch.testing.assert_close(answer.state[row], state, rtol=1e-4, atol=1e-5)
                expected = float(directions[row] @ state.double().numpy())
                assert answer.loss[row].item() == pytest.approx(expected, abs=1e-4)
            torch.testing.assert_close(answer.scores["similarity"], torch.ones(len(batch.ids)))
            again = bench.objective.answer(batch, answer)
            torch.testing.assert_close(again.scores["similarity"], torch.ones(len(batch.ids)))
            assert all(one.scores["similarity"].abs().max() <= 1 for one in (answer, again))
            turned = Answer(answer.loss, state=-2 * answer.state)
            opposite = bench.objective.answer(batch, turned).scores["similarity"]
            torch.testing.assert_close(opposite, -torch.ones(len(batch.ids)))


def gathered(bench: Any, width: int = 32) -> np.ndarray:
    found = np.zeros((bench.corpus.sequences, width))
    for batch in bench.corpus.batches:
        found[batch.members] = bench.objective.directions(batch, width)
    return found


def test_directions(headed: Headed, documents: Any, benched: Any):
    """Depend on the seed and the example, not on the batch; uniform on the sphere."""
    checkpoint, found = headed("bert", "representation"), []
    for seed, batch_tokens in ((42, 1), (42, 4096), (43, 4096)):
        with benched(checkpoint, documents("representation"), seed=seed, batch_tokens=batch_tokens) as bench:
            found.append(gathered(bench))
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max(1).min() > 0.01
    assert len(np.unique(found[0].round(6), axis=0)) == len(found[0])
    with benched(checkpoint, [Document("a bird")] * 800) as bench:
        many = gathered(bench)
    covariance = many.T @ many / len(many)
    np.testing.assert_allclose(covariance, np.eye(32) / 32, atol=6 / 32 / np.sqrt(800))
    assert np.abs(many.mean(0)).max() < 5 / np.sqrt(32 * 800)
