"""How far apart the heads of two models attend, query by query: between tokens, or between words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.findings.partners import SharedHeads
from attnprobe.kernels.divergence import divergence_between
from attnprobe.statistics.statistic import mean_over_queries
from attnprobe.sums.clustered import Clustered
from attnprobe.survey.pairing import Unit, pool_words
from attnprobe.survey.recorder import Values

#: Maps of a batch, (batch, head of any layer, query, key), kind by kind.
Maps = Mapping[Kind, tuple[Tensor, Layout]]
#: Divergence of heads of one number, (layer, head).
NUMBERED = "jsd"
#: Heads that are compared with all others at a time, so that what is found needs little memory.
AT_A_TIME = 16


def name_pairs(kind: Kind) -> str:
    """Name the divergences of all heads of a kind from all heads of the other model."""
    return f"jsd of pairs, {kind}"


@dataclass(frozen=True)
class Divergences:
    """Compares the heads of two models by the Jensen-Shannon divergence.

    Attributes:
        shared: Which heads there are.
        pairs: Whether every head is compared with every other, or only with that of its number.
    """

    shared: SharedHeads
    pairs: bool

    @property
    def sums(self) -> dict[str, type[Clustered]]:
        """What is kept over sequences, by name."""
        names = [NUMBERED] if any(map(self.shared.numbered, self.shared.kinds)) else []
        names += [name_pairs(kind) for kind in self.shared.kinds] if self.pairs else []
        return dict.fromkeys(names, Clustered)

    def compare(self, ours: Maps, theirs: Maps, units: Sequence[Sequence[Unit]] | None = None) -> Values:
        """For every query that counts, give the Jensen-Shannon divergence of what two heads attend to.

        A head's number is the mean over the queries of a sequence, in nats, from 0 to ln 2. Both heads have
        the same queries and the same keys.

        Args:
            ours: Those of the first model.
            theirs: Those of the second.
            units: For each sequence, the words that both see; None where both have the same tokens.

        Returns:
            (sequence, layer, head) of the first model, and for each kind (sequence, head,
            other head). NaN for removed heads and for layers of other kinds.
        """
        found: dict[str, list[Tensor]] = {}
        for kind in self.shared.kinds:
            (maps, layout), (others, _) = ours[kind], theirs[kind]
            others = others.to(maps.device, maps.dtype)
            if units is None:
                self._compare(kind, maps, others, layout, found)
                continue
            parts: dict[str, list[Tensor]] = {}
            for one, other, words in zip(maps, others, units, strict=True):
                self._compare_words(kind, one, other, words, parts)
            for name, values in parts.items():
                found.setdefault(name, []).append(torch.cat(values))
        return self._place(found)

    def _compare_words(
        self, kind: Kind, one: Tensor, other: Tensor, words: Sequence[Unit], found: dict[str, list[Tensor]]
    ) -> None:
        if not words:
            self._leave_empty(kind, one, found)
            return
        mine, its = map(list, zip(*words, strict=True))
        maps, others = pool_words(one, mine), pool_words(other, its)
        self._compare(kind, maps[None], others[None], None, found)

    def _compare(
        self, kind: Kind, maps: Tensor, others: Tensor, layout: Layout | None, found: dict[str, list[Tensor]]
    ) -> None:
        (places, heads), (other_places, other_heads) = self.shared.find_kept(kind)

        def mean(values: Tensor) -> Tensor:
            return values.nanmean(-1) if layout is None else mean_over_queries(values, layout)

        if self.pairs:
            maps, others = _pick(maps, places), _pick(others, other_places)
            some = (divergence_between(maps, part) for part in others.split(AT_A_TIME, 1))
            values = torch.cat([mean(part).unflatten(1, (maps.shape[1], -1)) for part in some], 2)
            whole = values.new_full((len(values), *self.shared.size(kind)), torch.nan)
            whole[:, torch.from_numpy(heads)[:, None], torch.from_numpy(other_heads)] = values
            found.setdefault(name_pairs(kind), []).append(whole)
            if self.shared.numbered(kind):
                found.setdefault(kind, []).append(whole.diagonal(0, 1, 2))
        elif self.shared.numbered(kind):
            both, mine, their = np.intersect1d(heads, other_heads, return_indices=True)
            maps, others = _pick(maps, places[mine]), _pick(others, other_places[their])
            values = mean(divergence_between(maps, others, numbered=True))
            whole = values.new_full((len(values), self.shared.size(kind)[0]), torch.nan)
            whole[:, torch.from_numpy(both)] = values
            found.setdefault(kind, []).append(whole)

    def _leave_empty(self, kind: Kind, maps: Tensor, found: dict[str, list[Tensor]]) -> None:
        size = self.shared.size(kind)
        if self.pairs:
            found.setdefault(name_pairs(kind), []).append(maps.new_full((1, *size), torch.nan))
        if self.shared.numbered(kind):
            found.setdefault(kind, []).append(maps.new_full((1, size[0]), torch.nan))

    def _place(self, found: dict[str, list[Tensor]]) -> Values:
        """Put heads of one number in the places of their layers, whatever the kind."""
        values: Values = {name: torch.cat(found[name]).cpu().numpy() for name in self.sums if name in found}
        if NUMBERED in self.sums:
            first, heads = self.shared.first, self.shared.first.heads
            batch = len(next(iter(found.values()))[0])
            whole = np.full((batch, len(first.places), heads), np.nan)
            for kind in self.shared.kinds:
                if kind in found:
                    layers = first.layers(kind)
                    whole[:, layers] = torch.cat(found[kind]).cpu().numpy().reshape(batch, len(layers), heads)
            values[NUMBERED] = whole
        return values


def _pick(maps: Tensor, places: NDArray[np.intp]) -> Tensor:
    # All of them cost nothing.
    return maps if len(places) == maps.shape[1] else maps[:, torch.from_numpy(places)]
