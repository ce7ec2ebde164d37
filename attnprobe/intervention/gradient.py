"""Importance by derivatives of the loss by the gates of heads: gradients, integrated gradients, LRP."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import UsageError
from attnprobe.intervention.objectives.embeddings import RelatedTexts
from attnprobe.intervention.objectives.objective import Answer, check_finite
from attnprobe.intervention.request import Method
from attnprobe.intervention.task import TaskData
from attnprobe.intervention.trials import HeadMask, close_gates, collect_answers
from attnprobe.model.quantisation import refuse_gradients
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.model.relevance import Relevance
from attnprobe.run.passes import Halving, ThreadContext
from attnprobe.sums.base import Sum, compute_digest
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import Estimate

Floats = NDArray[np.float64]
#: Nodes of the quadrature of integrated gradients, by default.
NODES = 4


@dataclass(frozen=True)
class Attributions(Sum):
    """Sums of the attribution a of each head over examples: |a|, a and a^2, and |a| by block of documents."""

    size: Clustered
    signed: Clustered
    squares: Clustered
    blocks: Blocked

    @classmethod
    def of(
        cls, values: Floats, clusters: NDArray[np.int64] | None, documents: NDArray[np.int64] | None
    ) -> Self:
        """Sum up the attributions of examples (example, layer, head)."""
        sizes = np.abs(values)
        size, signed, squares = (Clustered.of(part, clusters) for part in (sizes, values, np.square(values)))
        return cls(size, signed, squares, Blocked.of(sizes, documents=documents))

    @property
    def normalized(self) -> Estimate:
        """The mean of |a|, divided by its l2 norm over the heads of the layer.

        The error is that of the jackknife over blocks of documents.
        """
        return self.blocks.apply(lambda means: _divide(means, np.linalg.norm(means, axis=-1, keepdims=True)))

    @property
    def share(self) -> Estimate:
        """The mean of |a|, divided by its sum over the heads of the layer; the error is the jackknife's."""
        return self.blocks.apply(lambda means: _divide(means, means.sum(-1, keepdims=True)))


def _divide(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def sum_attributions(
    data: TaskData,
    attribute: Callable[[Batch], Tensor],
    name: str,
    mask: HeadMask,
    *,
    thread_context: ThreadContext,
    sums: type[Any] = Attributions,
    **question: str,
) -> Any:
    """Sum up over all examples the values (example, layer, head) that ``attribute`` computes for a batch.

    ``mask`` says which heads are on, and ``question`` what else the numbers depend on, for the state.

    Raises:
        ModelError: When values are NaN or infinite, or the weights are quantised, so there is no derivative.
    """
    halving = Halving()
    refuse_gradients(data.model.checkpoint)

    def attribute_batch(batch: Batch) -> Any:
        values = torch.cat(halving.run(batch, attribute))
        check_finite(values, data.model.checkpoint, "gradients")
        return sums.of(values.cpu().double().numpy(), batch.clusters, batch.documents)

    return data.total(
        name_pass(name, mask),
        attribute_batch,
        sums.from_arrays,
        thread_context=thread_context,
        question={"heads that are on": compute_digest(mask), **question},
    )


def name_pass(name: str, mask: HeadMask) -> str:
    """Name a pass over examples, with the number of heads that are on unless all are."""
    return name if mask.all() else f"{name} with {mask.sum()} heads on"


def sum_derivatives(
    data: TaskData,
    target: Callable[[Answer], Tensor],
    name: str,
    open_heads: HeadMask | None = None,
    rules: Callable[[], AbstractContextManager[object]] = nullcontext,
    sums: type[Any] = Attributions,
) -> Any:
    """Differentiate a number of each example by its gates, and sum up the derivatives over all examples.

    Every example has gates of its own, so one backward pass of the sum over a batch gives the derivatives of
    each example. They are taken with only ``open_heads`` on, if given. Where an example is about several
    texts, each text counts as one: see ``RelatedTexts``. ``target`` reads the number off an answer, (batch,).
    ``rules`` is a context of other rules of gradients, such as those of LRP.
    """
    checkpoint, objective = data.model.checkpoint, data.objective
    mask = np.ones(data.model.shape, bool) if open_heads is None else open_heads
    if isinstance(objective, RelatedTexts):
        cuts = [] if mask.all() else [mask]
        *_, answers = collect_answers(data, cuts, ["state"], name_pass("embedding", mask))
        objective = objective.find_slopes(answers["state"], data.corpus.batches)
    kind = torch.promote_types(checkpoint.body.dtype, torch.float32)
    at = torch.from_numpy(mask).to(checkpoint.device, kind)
    with rules(), data.model.gate() as gates:

        def differentiate(part: Batch) -> Tensor:
            xi = at.repeat(len(part), 1, 1).requires_grad_()
            with torch.enable_grad():
                gates.set(xi)
                return torch.autograd.grad(target(objective.answer(part)).sum(), xi)[0]

        @contextmanager
        def thread_context() -> Iterator[None]:
            with rules(), gates.thread_context():
                yield

        return sum_attributions(data, differentiate, name, mask, thread_context=thread_context, sums=sums)


def gradient_importance(data: TaskData, open_heads: HeadMask | None = None) -> Attributions:
    """Average the derivative of each example's loss by each gate: its absolute value, itself, its square.

        g_h(x) = d L(x) / d xi_h
        importance = mean over examples x of |g_h(x)|
        gradient_signed = mean of g_h(x)
        fisher = mean of g_h(x)^2

    If an example has several texts (``similarity``, ``triplet``, ``retrieval``), the mean is over texts x,
    and L(x) is the share of the text in the mean loss: see ``RelatedTexts``. If ``gradient_signed`` is
    positive, the mean loss rises with the gate: the head hurts. Opposite signs cancel over examples, so don't
    order heads by it. For ``representation`` the loss has a random direction, so its sign says nothing.

    Unit: that of the loss, and of its square for ``fisher``. Limits: 0 for a head whose gate changes nothing;
    |gradient_signed| <= importance <= sqrt(fisher).

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 4.1.
        Theis et al. (2018), Faster gaze prediction with dense networks and Fisher pruning: E g g^T by gates.
    """
    return sum_derivatives(data, lambda answer: answer.loss, "gradients", open_heads)


def head_relevance(data: TaskData, open_heads: HeadMask | None = None) -> Attributions:
    """Propagate the prediction for each example back to the heads, by the rules of LRP.

        R_h(x) = d~ z(x) / d xi_h,    relevance = mean over x of R_h,    relevance_abs = mean over x of |R_h|,
    relevance_share = relevance_abs / sum of relevance_abs over the heads of the layer,

    for a gate xi_h = 1 on the output of the head, where d~ is the gradient under the rules of
    ``attnprobe.model.relevance``. z is usually the logit of the prediction less that of the runner-up, and a
    head with positive R supports the prediction; in a regression, z is the predicted number. Relevance is
    conserved but for the share of biases, so R has the same unit in all layers. The heads of a layer don't
    sum to z, part of which bypasses them.

    Unit: that of z, usually logits. Limits: 0 for a head that gives nothing.

    References:
        Voita, Talbot, Moiseev, Sennrich and Titov (2019), Analyzing multi-head self-attention, section 4.
        Ali et al. (2022), XAI for transformers; Achtibat et al. (2024), AttnLRP: the rules.
    """

    def explain(answer: Answer) -> Tensor:
        if answer.margin is None:
            raise UsageError(f"{data.objective.name} has no margin to explain; choose another --method.")
        return answer.margin()

    return sum_derivatives(data, explain, "relevance", open_heads, rules=Relevance)


def find_nodes(number: int) -> tuple[Floats, Floats]:
    """Compute the places and the weights of Gauss-Legendre quadrature between 0 and 1."""
    places, weights = np.polynomial.legendre.leggauss(number)
    return (places + 1) / 2, weights / 2


def integrate_gradients(
    data: TaskData, nodes: int = NODES, open_heads: HeadMask | None = None
) -> Attributions:
    """Integrate the derivative of each example's loss by each gate, along a line for each layer.

        A_h(x) = integral from 0 to 1 of d L(x) / d xi_h at xi_k = t for all heads k of the layer, over t

    with the gates of all other layers open. So the heads of a layer add up to the effect of the layer on the
    loss, up to the error of the quadrature:

        sum_h A_h(x) = L(x) - L(x) without the layer's heads

    ``ig`` is the mean of A over examples, ``ig_abs`` that of |A|. A head with positive ``ig`` raises the
    loss: it hurts. The integral is a Gauss-Legendre sum. Pruned heads stay closed along the line.

    Unit: that of the loss. Limits: 0 for a head that gives nothing.

    References:
        Sundararajan, Taly and Yan (2017), Axiomatic attribution for deep networks.
    """
    model, objective = data.model, data.objective
    body, device = model.checkpoint.body, model.checkpoint.device
    mask = np.ones(model.shape, bool) if open_heads is None else open_heads
    resumable = model.gating.replays and objective.resumable
    opened = torch.from_numpy(mask).to(device, torch.promote_types(body.dtype, torch.float32))
    with model.gate() as gates:
        replay = BatchReplay(body, gates)

        def integrate(part: Batch) -> Tensor:
            integral = torch.zeros(len(part), *model.shape, dtype=torch.float64)
            gates.rows = closed = close_gates(mask, device)
            with torch.no_grad(), replay.record() if resumable else nullcontext():
                whole = objective.answer(part)
            for layer, ends in enumerate(opened):
                with torch.enable_grad(), replay.resume_at(layer) if resumable else nullcontext():
                    for place, weight in zip(*find_nodes(nodes), strict=True):
                        row = (float(place) * ends).repeat(len(part), 1).requires_grad_()
                        gates.rows = {**closed, layer: row}
                        loss = objective.answer(part, whole).loss.sum()
                        if loss.requires_grad:  # else no output of these heads reaches the loss
                            (slopes,) = torch.autograd.grad(loss, row, materialize_grads=True)
                            integral[:, layer] += weight * (slopes * ends).double().cpu()
            return integral

        with replay.watch(model.architecture.sites) if resumable else nullcontext():
            return sum_attributions(
                data,
                integrate,
                "integrated gradients",
                mask,
                thread_context=gates.thread_context,
                nodes=str(nodes),
            )


def attribute(
    data: TaskData, method: Method, nodes: int = NODES, open_heads: HeadMask | None = None
) -> Attributions:
    """Attribute the task to the heads by a method, with only ``open_heads`` on, if given."""
    if method == "ig":
        return integrate_gradients(data, nodes, open_heads)
    return (head_relevance if method == "lrp" else gradient_importance)(data, open_heads)
