"""Gradient importance: how much the loss of an example would change if a head were turned down."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.objective import Answer, Objective
from attnprobe.intervention.objectives.related import RelatedTexts
from attnprobe.intervention.task import Bench
from attnprobe.intervention.trials import collect_answers
from attnprobe.model.gates import gate_attention
from attnprobe.run.memory import Halving
from attnprobe.run.passes import Restore
from attnprobe.sums.base import Moments, Sum, compute_digest
from attnprobe.sums.blocked import Blocks
from attnprobe.sums.clustered import Clustered

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance(Sum):
    """Moments of the importance of every head over examples. Two of them add up.

    Attributes:
        heads: Of the importance (layer, head).
        products: Of the products within a layer (layer, head, head), of examples that are documents of
            their own; they give the covariances that the error of a normalised value needs.
        blocks: Its sums over blocks of documents (block, layer, head).
    """

    heads: Clustered
    products: Moments
    blocks: Blocks

    @classmethod
    def of(cls, values: Floats, batch: Batch) -> "Importance":
        """Take the moments of a batch (example, layer, head)."""
        clusters = batch.clusters
        alone = values if clusters is None else values[clusters < 0]
        documents = batch.members if batch.documents is None else batch.documents
        products = alone[..., :, None] * alone[..., None, :]
        return cls(Clustered.of(values, clusters), Moments.of(products), Blocks.of(values, documents))

    @property
    def normalized(self) -> tuple[Floats, Floats]:
        """The importance divided by its l2 norm within the layer, and the standard error.

        With u = I / |I|, the error follows from du = (1 - u u^T) dI / |I| to first order.
        """
        mean = self.heads.average
        norm = np.linalg.norm(mean, axis=-1, keepdims=True)
        unit = np.divide(mean, norm, out=np.full_like(mean, np.nan), where=norm > 0)
        project = np.eye(mean.shape[-1]) - unit[..., :, None] * unit[..., None, :]
        spread = np.einsum("lij,ljk,lik->li", project, self.covariance, project).clip(0) / norm**2
        return unit, np.sqrt(spread)

    @property
    def share(self) -> tuple[Floats, Floats]:
        """The importance, here mean |R|, divided by its sum over the heads of the layer; the standard error.

        With s = I / sum I, the error follows from ds = (1 - s 1^T) dI / sum I to first order.
        """
        mean = self.heads.average
        total = mean.sum(-1, keepdims=True)
        share = np.divide(mean, total, out=np.full_like(mean, np.nan), where=total > 0)
        project = np.eye(mean.shape[-1]) - share[..., :, None]
        spread = np.einsum("lij,ljk,lik->li", project, self.covariance, project).clip(0)
        return share, np.sqrt(spread) / total

    @cached_property
    def covariance(self) -> Floats:
        """Covariances of the means of a layer's heads (layer, head, head); jackknife over documents."""
        heads, alone, mean = self.heads, self.heads.alone, self.heads.average
        number, clusters = heads.count[..., None], heads.clusters[..., None]
        crossed, squared = (side[..., :, None] * mean[..., None, :] for side in (alone.mean, mean))
        within = self.products.mean - crossed - crossed.swapaxes(-1, -2) + squared
        with np.errstate(divide="ignore", invalid="ignore"):
            found = alone.count[..., None] * within / np.square(number - 1)
            pull = heads.residuals / (heads.count - heads.groups.count)
            found = found + np.einsum("gli,glj->lij", pull, pull)
            return np.where(clusters > 1, found * (clusters - 1) / clusters, np.nan)


@dataclass(frozen=True)
class Gradients(Importance):
    """Moments over examples of |g|, as of any importance, and of the derivative g itself. Two of them add up.

    ``signed`` is of g (layer, head), ``squares`` of g^2.
    """

    signed: Clustered
    squares: Clustered

    @classmethod
    def of(cls, values: Floats, batch: Batch) -> "Gradients":
        """Take the moments of the derivatives of a batch (example, layer, head)."""
        size, clusters = Importance.of(np.abs(values), batch), batch.clusters
        signed, squares = (Clustered.of(one, clusters) for one in (values, np.square(values)))
        return cls(size.heads, size.products, size.blocks, signed, squares)


def sum_derivatives(
    bench: Bench,
    target: Callable[[Answer], Tensor],
    accumulate: Callable[[Floats, Batch], Any],
    restore: Restore,
    *,
    name: str,
    open_heads: NDArray[np.bool_] | None = None,
    rules: Callable[[], AbstractContextManager[object]] = nullcontext,
    kept: str = "",
) -> Any:
    """Differentiate a number of each example by its gates, and sum over all examples.

    Every example has gates of its own, so that one backward pass of the sum over a batch gives each example's
    derivatives. Where an example is about several texts, each text counts as one: see ``RelatedTexts``.

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        target: Reads the number to differentiate off an answer, (batch,).
        accumulate: Makes a sum of the derivatives (batch, layer, head) of a batch.
        restore: Makes a sum of its arrays.
        name: Of the pass.
        open_heads: Which gates are open (layer, head); the derivative is taken there.
        rules: Other rules of gradients, which each thread enters before heads are gated.
        kept: What the sum is of, where a state could hold another of the same pass.
    """
    checkpoint, architecture = bench.subject.checkpoint, bench.subject.architecture
    if checkpoint.quantisation is not None:
        checkpoint.quantisation.check_gradients(checkpoint.model_type)
    at = torch.ones(bench.subject.shape) if open_heads is None else torch.from_numpy(open_heads).float()
    halving, left = Halving(), int(at.sum())
    named = f"{{}} with {left} heads on" if left < at.numel() else "{}"
    objective = _bind_texts(bench, open_heads, named.format("embedding"))
    way, sites, present = architecture.way, architecture.sites, architecture.present
    kind = torch.promote_types(checkpoint.body.dtype, torch.float32)
    with rules(), gate_attention(checkpoint.body, way, sites, present) as gates:

        def derivative_of(part: Batch) -> Tensor:
            xi = at.to(checkpoint.device, kind).repeat(len(part), 1, 1).requires_grad_()
            with torch.enable_grad():
                gates.set(xi)
                return torch.autograd.grad(target(objective.answer(part)).sum(), xi)[0]

        def sum_of(batch: Batch) -> Any:
            derivative = torch.cat(halving.run(batch, derivative_of))
            if not bool(torch.isfinite(derivative).all()):
                raise AttnprobeError(
                    f"{checkpoint.name} gives NaN or infinite gradients; try --dtype float32, or look "
                    "at its weights."
                )
            return accumulate(derivative.cpu().double().numpy(), batch)

        @contextmanager
        def thread_context() -> Iterator[None]:
            with rules(), gates.thread_context():
                yield

        return bench.total(
            named.format(name),
            sum_of,
            restore,
            thread_context=thread_context,
            question={"heads that are on": compute_digest(at.numpy())} | ({"sum": kept} if kept else {}),
        )


def _bind_texts(bench: Bench, open_heads: NDArray[np.bool_] | None, name: str) -> Objective:
    """Give the objective, with a number for each text where examples are about several."""
    objective = bench.objective
    if not isinstance(objective, RelatedTexts):
        return objective
    cuts = [] if open_heads is None else [open_heads]
    *_, answers = collect_answers(bench, cuts, ["state"], name)
    return objective.find_slopes(answers["state"], bench.corpus.batches)


def gradient_importance(bench: Bench, open_heads: NDArray[np.bool_] | None = None) -> Gradients:
    """Average the derivative of each example's loss by each gate: its size, itself, and its square.

        g_h(x) = d L(x) / d xi_h
        importance = mean over examples x of |g_h(x)|
        gradient_signed = mean of g_h(x)
        fisher = mean of g_h(x)^2

    Where an example is about several texts (``similarity``, ``triplet``, ``retrieval``), the mean is over
    texts x, and L(x) is what the text has to do with the mean loss: see ``RelatedTexts``. Where
    ``gradient_signed`` is positive, the mean loss rises with the gate: the head harms. It cancels over
    examples, and orders no heads; for ``representation`` the loss has a random direction, so that its sign
    says nothing.

    Unit: that of the loss, and of its square for ``fisher``. Limits: 0 for a head whose gate changes nothing;
    |gradient_signed| <= importance <= sqrt(fisher).

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        open_heads: Which gates are open (layer, head); the derivative is taken there.

    Raises:
        AttnprobeError: When a loss or a derivative is no number.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 4.1.
        Theis et al. (2018), Faster gaze prediction with dense networks and Fisher pruning: E g g^T by gates.
    """
    return sum_derivatives(
        bench,
        lambda answer: answer.loss,
        Gradients.of,
        Gradients.from_arrays,
        name="gradients",
        open_heads=open_heads,
        kept="|g|, g, g^2",
    )


def describe_texts(bench: Bench) -> list[str]:
    """Say what is averaged where an example is about several texts."""
    if not isinstance(bench.objective, RelatedTexts):
        return []
    return [
        "Importance is the mean over texts, which n counts, of what the head does in each to the mean loss."
    ]
