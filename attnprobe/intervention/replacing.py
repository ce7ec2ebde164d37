"""What replaces the output of a head that is off: zero, its mean, or its output in another example."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.corpus.batches import plan_batches
from attnprobe.errors import DataError, UsageError
from attnprobe.intervention.request import ReplacedBy
from attnprobe.intervention.task import TaskData
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.gates import check_replacements
from attnprobe.model.reading.gates import Gates
from attnprobe.run.passes import Halving
from attnprobe.sums.base import Constant, Sum, compute_digest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Classes of tokens that have a mean each: the first special token, the last one, and all others.
FIRST, LAST, ORDINARY = range(3)
#: The fewest other examples that one is drawn from.
LEAST_POOL = 8
#: For each layer, what replaces the output of its heads: (batch or 1, query or 1, head, width).
Outputs = dict[int, Tensor]


@dataclass(frozen=True)
class Replacing:
    """A replacement for the output of heads.

    ``place(batch, draw, gates)`` computes it for a batch while all gates are open. ``key`` is what it depends
    on besides the examples, for the state of a run.
    """

    name: ReplacedBy
    key: str
    place: Callable[[Batch, int, Gates], Outputs]
    draws: int = 1


def build_replacing(name: ReplacedBy, data: TaskData, *, draws: int, seed: int) -> Replacing | None:
    """Prepare the replacement that --with names, None for zero; means take a pass.

    Raises:
        UsageError: Where text is generated, so that an answer is not one forward pass.
    """
    if name == "zero":
        return None
    if not data.objective.resumable:
        raise UsageError(
            f"--with {name} needs answers of one forward pass, and text is generated token by token here; "
            "take --with zero, or another --metric."
        )
    check_replacements(data.model.checkpoint, data.model.architecture)
    return replace_by_means(data) if name == "mean" else replace_by_examples(data, draws, seed)


def _find_features(batch: Batch, architecture: Architecture, layer: int) -> TokenFeatures | None:
    """Find the features of the tokens that attend in a layer; None where they are not tokens of the text."""
    if architecture.layer_heads:
        return None
    if batch.targets is not None and architecture.kinds[layer] in {Kind.DECODER, Kind.CROSS}:
        return batch.targets
    return batch.corpus.lay_out(batch, batch.length).queries


def _classify_tokens(features: TokenFeatures | None, batch: int, queries: int) -> Tensor:
    """Find the class of each token, (batch, query)."""
    classes = torch.full((batch, queries), ORDINARY)
    if features is None or (features.batch, features.length) != (batch, queries):
        return classes
    place = torch.arange(queries)
    last = torch.where(features.separator.cpu(), place, -1).amax(1)
    classes[place == last[:, None]] = LAST
    classes[features.first.cpu()] = FIRST
    return classes


@dataclass(frozen=True)
class OutputSums(Sum):
    """Sums of heads' outputs over the tokens of each class.

    ``count`` is the number of tokens (layer, class), ``total`` the sum (layer, class, head, width), 0 beyond
    the heads and the width of a layer, which are ``sizes``.
    """

    count: Floats
    total: Floats
    sizes: Constant

    @classmethod
    def of(cls, outputs: Mapping[int, Tensor], batch: Batch, architecture: Architecture) -> Self:
        """Sum up the outputs (batch, query, head, width) of all layers."""
        layers = architecture.layers
        sizes = np.array([outputs[layer].shape[2:] for layer in range(layers)])
        count, total = np.zeros((layers, 3)), np.zeros((layers, 3, *sizes.max(0)))
        for layer, output in outputs.items():
            classes = _classify_tokens(_find_features(batch, architecture, layer), *output.shape[:2])
            marks = torch.nn.functional.one_hot(classes.flatten(), 3).to(output.device, torch.float64)
            summed = marks.T @ output.flatten(2).flatten(0, 1).double()
            count[layer] = marks.sum(0).cpu().numpy()
            heads, width = sizes[layer]
            total[layer, :, :heads, :width] = summed.unflatten(1, (heads, width)).cpu().numpy()
        return cls(count, total, Constant.of(sizes))

    def average(self) -> list[Tensor]:
        """Average the output of each layer over each class of tokens (class, head, width); 0 without any."""
        means = self.total / np.maximum(self.count, 1)[:, :, None, None]
        sizes = self.sizes.values.astype(int)
        return [
            torch.from_numpy(mean[:, :heads, :width].copy()).float()
            for mean, (heads, width) in zip(means, sizes, strict=True)
        ]


def replace_by_means(data: TaskData) -> Replacing:
    """Replace the output of a head by its mean over the tokens of all examples, in one pass.

        r_h(class) = mean over the tokens of a class of o_h

    with o_h what head h gives to the output projection. The classes are the first special token, the last
    special token, and all others.

    References:
        Wang et al. (2023), Interpretability in the wild: a circuit for indirect object identification in
        GPT-2 small, where it is called mean ablation.
    """
    architecture, halving = data.model.architecture, Halving()
    with data.model.gate() as gates:

        def sum_part(part: Batch) -> OutputSums:
            gates.open()
            with torch.inference_mode(), gates.record_outputs() as outputs:
                data.objective.answer(part)
                return OutputSums.of(outputs, part, architecture)

        sums: OutputSums = data.total(
            "averaging outputs",
            lambda batch: halving.total(batch, sum_part),
            OutputSums.from_arrays,
            thread_context=gates.thread_context,
        )
    means, with_special = sums.average(), sums.count[:, :ORDINARY].max(1) > 0

    def find_outputs(batch: Batch, draw: int, gates: Gates) -> Outputs:
        placed: Outputs = {}
        for layer, mean in enumerate(means):
            features = _find_features(batch, architecture, layer) if with_special[layer] else None
            shape = (1, 1) if features is None else (features.batch, features.length)
            placed[layer] = mean[_classify_tokens(features, *shape)]
        return placed

    return Replacing("mean", f"mean {compute_digest(sums.count, sums.total)}", find_outputs)


def replace_by_examples(data: TaskData, draws: int, seed: int) -> Replacing:
    """Replace the output of a head by its output in another example, at the same position.

    The other example is drawn at random, the same one for all heads, from the examples of other documents
    with the same number of tokens; if there are fewer than 8, from the 8 nearest in length. The last special
    token takes the output at the last special token. Positions beyond the end of a shorter example start
    again at its first ordinary token.

    References:
        Chan et al. (2022), Causal scrubbing; Zhang and Nanda (2024), Towards best practices of activation
        patching in language models.
    """
    architecture, batches = data.model.architecture, data.corpus.batches
    examples = ResampledExamples(batches, seed)

    def find_outputs(batch: Batch, draw: int, gates: Gates) -> Outputs:
        chosen = np.array([examples.draw(int(member), draw) for member in batch.members])
        different, placed = np.unique(chosen), Outputs()
        lengths = examples.lengths[different].T
        for group in plan_batches(lengths[0], len(batch) * batch.length, None, [*lengths]):
            members = different[group]
            others = batches.read(members)
            with gates.record_outputs() as outputs:
                data.objective.answer(others)
            rows = np.flatnonzero(np.isin(chosen, members))
            sources = torch.from_numpy(np.searchsorted(members, chosen[rows]))
            for layer, output in outputs.items():
                aligned = output[sources.to(output.device)]
                features, source = (_find_features(part, architecture, layer) for part in (batch, others))
                if features is not None and source is not None and output.shape[1] == source.length:
                    aligned = aligned[:, _align_positions(features, source).to(output.device)]
                if layer not in placed:
                    placed[layer] = aligned.new_zeros((len(batch), *aligned.shape[1:]))
                placed[layer][torch.from_numpy(rows).to(output.device)] = aligned
        return placed

    return Replacing("resample", f"resample {draws} {seed}", find_outputs, draws)


def _align_positions(features: TokenFeatures, source: TokenFeatures) -> Tensor:
    """Find the position in the source whose output each position of a batch takes, (query,)."""
    place, length = torch.arange(features.length), source.length
    if features.length == length:
        return place
    ends = bool(features.special[:, -1].all() and source.special[:, -1].all())
    begins = int(source.special[:, 0].all())
    stop = length - ends
    again = begins + (place - begins) % max(1, stop - begins)
    positions = torch.where(place < stop, place, again).clamp_max(length - 1)
    if ends:
        positions[-1] = length - 1
    return positions


class ResampledExamples:
    """Draws, for an example, one of another document and of about the same length."""

    def __init__(self, batches: BatchReader, seed: int) -> None:
        self._members, self._documents, self._seed = batches.members, batches.documents, seed
        if len(np.unique(self._documents[self._members])) < 2:
            raise DataError("--with resample needs examples of at least two documents; give more.")
        sides = [batches.lengths, *([] if batches.targets is None else [batches.targets.store.lengths])]
        self.lengths = np.stack([np.asarray(side, np.int64) for side in sides], 1)

    def draw(self, member: int, draw: int) -> int:
        """Draw the example that replaces ``member``; it depends on the seed and the number of the draw."""
        pool = self.list_pool(member)
        return int(pool[np.random.default_rng((self._seed, draw, member)).integers(len(pool))])

    def list_pool(self, member: int) -> Ints:
        """List examples of other documents to draw from: 8 or more of the same length, or the 8 nearest."""
        others = self._members[self._documents[self._members] != self._documents[member]]
        lengths = self.lengths[others]
        distance = np.abs(lengths - self.lengths[member]).sum(1)
        if (equal := others[distance == 0]).size >= LEAST_POOL:
            return equal
        shorter = (lengths < self.lengths[member]).any(1)
        return others[np.lexsort((*lengths.T[::-1], shorter, distance))[:LEAST_POOL]]
