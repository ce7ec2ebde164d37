"""How strong heads are, whatever the task: the length of what they add, and of their weights."""

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.task import Bench, Subject
from attnprobe.model.gates import gate_attention
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.verifying.parameters import find_value_weights
from attnprobe.run.memory import Halving
from attnprobe.sums.base import compute_digest
from attnprobe.sums.groups import Clustered

Floats = NDArray[np.float64]


def measure_norms(
    bench: Bench, open_heads: NDArray[np.bool_] | None = None, name: str = "norms of heads"
) -> Clustered:
    """Average the length of what every head adds to the residual stream, in one forward pass.

        norm_h = mean over examples x of sqrt( mean over queries q of |o_hq(x) W_O,h|^2 )

    with o_hq what the head gives to the output projection, and W_O,h the rows of the projection that read it.
    With W_O,h the length is that of what the layer adds for the head: values and projection may be scaled
    against one another without any change to the model, which would change |o_hq|. It is the
    ``contribution_norm`` of ``mixing``, over the sequences of the task.

    Unit: that of the residual stream. Limits: 0 for a head whose output projection is 0.

    Args:
        bench: Checkpoint, task and examples.
        open_heads: Which heads are on (layer, head); what the others add is 0.
        name: Of the pass.

    Raises:
        AttnprobeError: When what heads add can't be told.

    References:
        After Kobayashi, Kuribayashi, Yokoi and Inui (2020), Attention is not only a weight.
    """
    subject = bench.subject
    checkpoint, architecture = subject.checkpoint, subject.architecture
    products = _find_products(subject, "norm")
    at = np.ones(subject.shape, bool) if open_heads is None else open_heads
    opened, halving = torch.from_numpy(at).to(checkpoint.device), Halving()
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with gate_attention(checkpoint.body, way, sites, present) as gates:

        def measure(part: Batch) -> Floats:
            found = np.zeros((len(part), *subject.shape))
            gates.rows = {layer: opened[layer][None] for layer in np.flatnonzero(~at.all(-1)).tolist()}
            gates.outputs, gates.recording = {}, True
            try:
                with torch.inference_mode():
                    checkpoint.forward(part.inputs)
                    for layer, given in gates.outputs.items():
                        product = products[layer].to(given.device)
                        # Windows of an image are one after the other.
                        heads = given.reshape(len(part), -1, *given.shape[2:]).to(product.dtype)
                        squares = torch.einsum("bqhw,hwv,bqhv->bh", heads, product, heads)
                        length = (squares.clamp_min(0) / heads.shape[1]).sqrt()
                        numbers = list(present[layer]) if present else list(range(length.shape[1]))
                        found[:, layer, numbers] = length.double().cpu().numpy()
            finally:
                gates.outputs, gates.recording = {}, False
            return found * at

        return bench.total(
            name,
            lambda batch: Clustered.of(np.concatenate(halving.run(batch, measure)), batch.clusters),
            Clustered.from_arrays,
            thread_context=gates.thread_context,
            question={"heads that are on": compute_digest(at)},
        )


def measure_magnitudes(subject: Subject) -> Floats:
    """Multiply the lengths of what a head's values and output are made by, |W_V,h| |W_O,h|: (layer, head).

    Both are Frobenius norms, so that scaling one against the other changes nothing. It needs no data. Where
    query heads share values, each has those of its group.

    Limits: 0 for a head whose output projection is 0.

    Raises:
        AttnprobeError: When the weights of some layer can't be told.

    References:
        Han, Pool, Tran and Dally (2015), Learning both weights and connections: magnitude, of weights.
    """
    architecture, found = subject.architecture, np.zeros(subject.shape)
    products = _find_products(subject, "magnitude")
    values = find_value_weights(subject.checkpoint, architecture)
    for layer, (value, product) in enumerate(zip(values, products, strict=True)):
        if isinstance(value, str):
            place = architecture.places[layer]
            raise AttnprobeError(
                f"--by magnitude needs the weights of the values, and those of {place} can't be told: "
                f"{value}; take norm or gradient."
            )
        long = torch.linalg.matrix_norm(value.double()).cpu().numpy()
        wide = product.double().diagonal(dim1=1, dim2=2).sum(-1).sqrt().cpu().numpy()
        numbers = list(architecture.present[layer]) if architecture.present else list(range(len(long)))
        found[layer, numbers] = long * wide
    return found


def _find_products(subject: Subject, name: str) -> tuple[torch.Tensor, ...]:
    """Find W_O,h W_O,h^T of every layer, (head, width, width)."""
    try:
        return subject.output_products
    except UnsupportedModelError as error:
        raise AttnprobeError(
            f"--by {name} needs what each head adds to its layer, which can't be told for "
            f"{subject.checkpoint.name}: {error.reason}; take gradient."
        ) from error
