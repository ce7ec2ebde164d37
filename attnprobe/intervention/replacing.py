"""What takes the place of what a closed head gives: nothing, its mean, or what it gives elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import ReplacedBy
from attnprobe.intervention.task import TaskData
from attnprobe.model.gates import Gates
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.switching import check_replacements
from attnprobe.run.memory import Halving
from attnprobe.sums.base import Sum, compute_digest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Kinds of tokens that have a mean each.
FIRST, LAST, ORDINARY = range(3)
#: Among so many other examples at least, one is drawn.
LEAST_POOL = 8
#: For each layer, what takes the place of its heads' output: (batch or 1, query or 1, head, width).
Outputs = Mapping[int, Tensor]


class Replacing(ABC):
    """What takes the place of heads' output, batch by batch.

    Attributes:
        name: As the option spells it.
        draws: How often all heads are replaced anew.
        key: What it depends on beside the examples, for the state of a run.
    """

    name: ReplacedBy
    draws: int = 1
    key: str

    @abstractmethod
    def place(self, batch: Batch, draw: int, gates: Gates) -> Outputs:
        """Give what takes the place in each layer. All gates are open."""


def build_replacing(name: ReplacedBy, data: TaskData, *, draws: int, seed: int) -> Replacing | None:
    """Prepare what takes the place of heads: a pass over all examples for means. None for zero.

    Raises:
        UnsupportedModelError: When what the heads give can't be replaced.
        AttnprobeError: When answers are generated token by token, or there is no other example.
    """
    if name == "zero":
        return None
    if not data.objective.resumable:
        raise AttnprobeError(
            f"--with {name} needs answers of one forward pass, and text is generated token by token here; "
            "take --with zero, or another --metric."
        )
    check_replacements(data.model.checkpoint, data.model.architecture)
    if name == "mean":
        return MeanOutputs(data.model.architecture, average_outputs(data))
    return OtherExamples(data, draws, seed)


def find_features(batch: Batch, kind: Kind | str) -> TokenFeatures | None:
    """Find what is known about the tokens that attend in layers of a kind; None where nothing is."""
    if batch.targets is not None and kind in {Kind.DECODER, Kind.CROSS}:
        return batch.targets
    if batch.tokens is not None:
        return batch.tokens
    return None if batch.unseen is None else batch.unseen.layout(len(batch), batch.length).queries


def sort_tokens(features: TokenFeatures | None, batch: int, queries: int) -> Tensor:
    """Sort tokens into the first special one, the last special one, and all others, (batch, query).

    Where nothing is known of these tokens, all are others.
    """
    sorts = torch.full((batch, queries), ORDINARY)
    if features is None or (features.batch, features.length) != (batch, queries):
        return sorts
    place = torch.arange(queries)
    last = torch.where(features.separator.cpu(), place, -1).amax(1)
    sorts[place == last[:, None]] = LAST
    sorts[features.first.cpu()] = FIRST
    return sorts


@dataclass(frozen=True)
class OutputSums(Sum):
    """What heads give, summed up for each kind of token.

    Attributes:
        count: Tokens of each kind (layer, kind).
        total: (layer, kind, head, width) their sum; 0 beyond the heads and the width of a layer.
        sizes: Heads of each layer that are computed, and their width (layer, 2); the same in all sums.
    """

    count: Floats
    total: Floats
    sizes: Ints

    @classmethod
    def of(cls, outputs: Outputs, batch: Batch, architecture: Architecture) -> Self:
        """Sum up the outputs (batch, query, head, width) of all layers."""
        layers = architecture.layers
        sizes = np.array([outputs[layer].shape[2:] for layer in range(layers)])
        count, total = np.zeros((layers, 3)), np.zeros((layers, 3, *sizes.max(0)))
        for layer, output in outputs.items():
            features = None if architecture.layer_heads else find_features(batch, architecture.kinds[layer])
            sorts = sort_tokens(features, *output.shape[:2])
            marks = torch.nn.functional.one_hot(sorts.flatten(), 3).to(output.device, torch.float64)
            summed = marks.T @ output.flatten(2).flatten(0, 1).double()
            count[layer] = marks.sum(0).cpu().numpy()
            heads, width = sizes[layer]
            total[layer, :, :heads, :width] = summed.unflatten(1, (heads, width)).cpu().numpy()
        return cls(count, total, sizes)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.count + other.count, self.total + other.total, self.sizes)

    def average_layer(self, layer: int) -> Tensor:
        """Average the output of a layer for each kind of token (kind, head, width); 0 for one without any."""
        heads, width = self.sizes[layer]
        count = np.maximum(self.count[layer], 1)[:, None, None]
        return torch.from_numpy(self.total[layer, :, :heads, :width] / count).float()


def average_outputs(data: TaskData) -> OutputSums:
    """Average what every head gives over the tokens of all examples, in one pass.

        r_h(kind) = mean over tokens of a kind of o_h

    with o_h what head h gives to the output projection. The kinds are the first special token, the last
    special token, and all others.
    """
    model, halving = data.model, Halving()
    with model.gate() as gates:

        def sum_part(part: Batch) -> OutputSums:
            gates.open()
            with gates.record_outputs() as outputs:
                data.objective.answer(part)
            return OutputSums.of(outputs, part, model.architecture)

        def sum_batch(batch: Batch) -> OutputSums:
            with torch.inference_mode():
                return reduce(add, halving.run(batch, sum_part))

        return data.total(
            "averaging outputs", sum_batch, OutputSums.from_arrays, thread_context=gates.thread_context
        )


class MeanOutputs(Replacing):
    """The mean of what a head gives, one for each kind of token.

    References:
        Wang et al. (2023), Interpretability in the wild: a circuit for indirect object identification in
        GPT-2 small, where it is called mean ablation.
    """

    name = "mean"

    def __init__(self, architecture: Architecture, sums: OutputSums) -> None:
        self._kinds = architecture.kinds
        self._means = [sums.average_layer(layer) for layer in range(architecture.layers)]
        #: Of which layers it is known which token is which.
        self._sorted = [bool(count[[FIRST, LAST]].any()) for count in sums.count]
        self.key = f"mean {compute_digest(sums.count, sums.total)}"

    def place(self, batch: Batch, draw: int, gates: Gates) -> Outputs:
        outputs: dict[int, Tensor] = {}
        for layer, means in enumerate(self._means):
            features = find_features(batch, self._kinds[layer]) if self._sorted[layer] else None
            if features is None:
                outputs[layer] = means[None, None, ORDINARY]
            else:
                outputs[layer] = means[sort_tokens(features, features.batch, features.length)]
        return outputs


class OtherExamples(Replacing):
    """What a head gives in another example, at the same position.

    The other example is drawn at random, the same one for all heads, from the examples of other documents
    that have as many tokens; where these are fewer than 8, so many of those nearest in length join them. The
    last special token takes what the last special one gives. What lies beyond the end of a shorter example
    begins again at its first ordinary token.

    References:
        Chan et al. (2022), Causal scrubbing; Zhang and Nanda (2024), Towards best practices of activation
        patching in language models.
    """

    name = "resample"

    def __init__(self, data: TaskData, draws: int, seed: int) -> None:
        self.draws, self._bench = draws, data
        self.key = f"resample {draws} {seed}"
        self._examples = ResampledExamples(data.corpus.batches, seed)

    def place(self, batch: Batch, draw: int, gates: Gates) -> Outputs:
        examples = self._examples
        chosen = np.array([examples.draw(int(member), draw) for member in batch.members])
        placed: dict[int, Tensor] = {}
        for members in examples.group(np.unique(chosen), len(batch)):
            others = self._bench.corpus.batches.read(members)
            with gates.record_outputs() as outputs:
                self._bench.objective.answer(others)
            rows = np.flatnonzero(np.isin(chosen, members))
            sources = torch.from_numpy(np.searchsorted(members, chosen[rows]))
            for layer, output in outputs.items():
                aligned = self._align(output[sources.to(output.device)], layer, batch, others)
                if layer not in placed:
                    placed[layer] = aligned.new_zeros((len(batch), *aligned.shape[1:]))
                placed[layer][torch.from_numpy(rows).to(output.device)] = aligned
        return placed

    def _align(self, output: Tensor, layer: int, batch: Batch, others: Batch) -> Tensor:
        """Give what other examples gave in a layer at the positions of those of a batch."""
        architecture = self._bench.model.architecture
        kind = architecture.kinds[layer]
        here, there = find_features(batch, kind), find_features(others, kind)
        if architecture.layer_heads or here is None or there is None or output.shape[1] != there.length:
            return output
        return output[:, align_positions(here, there).to(output.device)]


def align_positions(here: TokenFeatures, there: TokenFeatures) -> Tensor:
    """Find the position of another example for each of an example, (query,).

    >>> import torch
    >>> def sentence(length):
    ...     no = torch.zeros(1, length, dtype=torch.bool)
    ...     first, last = no.clone(), no.clone()
    ...     first[:, 0] = last[:, -1] = True
    ...     rank = torch.zeros(1, length).long()
    ...     return TokenFeatures(first, last, no, ~(first | last), no.float(), ~no, rank, rank)
    >>> align_positions(sentence(5), sentence(7)).tolist(), align_positions(sentence(7), sentence(5)).tolist()
    ([0, 1, 2, 3, 6], [0, 1, 2, 3, 1, 2, 4])
    """
    length, other = here.length, there.length
    if length == other:
        return torch.arange(length)
    ends = bool(here.special[:, -1].all() and there.special[:, -1].all())
    begins = int(there.special[:, 0].all())
    last = other - ends  # behind the last that is not at the end
    place = torch.arange(length)
    ordinary = max(1, last - begins)
    positions = torch.where(place < last, place, begins + (place - begins) % ordinary).clamp_max(other - 1)
    if ends:
        positions[-1] = other - 1
    return positions


class ResampledExamples:
    """Draws another example for each, of about the same length and of another document."""

    def __init__(self, batches: BatchReader, seed: int) -> None:
        members, self._seed = batches.members, seed
        if len(np.unique(batches.documents[members])) < 2:
            raise AttnprobeError("--with resample needs examples of at least two documents; give more.")
        sides = [batches.lengths, *([] if batches.targets is None else [batches.targets.store.lengths])]
        self._documents = batches.documents
        self._lengths = np.stack([np.asarray(side, np.int64) for side in sides], 1)
        self._keys, place = np.unique(self._lengths[members], axis=0, return_inverse=True)
        place = place.ravel()
        self._groups = [members[place == number] for number in range(len(self._keys))]

    def draw(self, member: int, draw: int) -> int:
        """Draw an example for another: the same for the same seed, whatever else is drawn."""
        pool = self.list_pool(member)
        return int(pool[np.random.default_rng((self._seed, draw, member)).integers(len(pool))])

    def list_pool(self, member: int) -> Ints:
        """List the examples that are drawn from, nearest in length first."""
        length = self._lengths[member]
        distance = np.abs(self._keys - length).sum(1)
        shorter = (self._keys < length).any(1)
        pool = np.zeros(0, np.int64)
        for number in np.lexsort((shorter, distance)):
            if len(pool) >= LEAST_POOL:
                break
            group = self._groups[number]
            others = group[self._documents[group] != self._documents[member]]
            if distance[number]:  # of those that differ in length, no more than it takes
                others = others[: LEAST_POOL - len(pool)]
            pool = np.concatenate([pool, others])
        return pool

    def group(self, members: Ints, most: int) -> Iterator[Ints]:
        """Group examples of equal lengths, at most so many at a time; ascending in each group."""
        _, place = np.unique(self._lengths[members], axis=0, return_inverse=True)
        place = place.ravel()
        for number in range(int(place.max(initial=-1)) + 1):
            alike = members[place == number]
            for start in range(0, len(alike), most):
                yield alike[start : start + most]
