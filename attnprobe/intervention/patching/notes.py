"""What to read first in a table of patched heads: the gap, the flips, the heads that carry it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attnprobe.intervention.objectives.contrast import ContrastMeasure
from attnprobe.intervention.patching.pairs import PatchedPairs, count_flips
from attnprobe.intervention.patching.values import Floats
from attnprobe.intervention.task import Bench
from attnprobe.sums.resampling import SIGNIFICANT

#: So many heads are named.
_NAMED = 3
#: Half of a 95 % interval of a normal distribution, in standard errors.
BEYOND = 1.96
#: Fewer pairs say little about every head.
FEW = 30


@dataclass(frozen=True)
class Shares:
    """Of every head the share of the gap that it recovers, its error and adjusted p, (layer, head, ...)."""

    share: Floats
    error: Floats
    adjusted: Floats


def describe_patching(bench: Bench, found: PatchedPairs, shares: Shares) -> Iterator[str]:
    """Say what m is, how far both sides are apart, how many pairs flip, and which heads carry the gap."""
    assert isinstance(bench.objective, ContrastMeasure)
    measure, number = bench.objective, len(found.base)
    clean, corrupted = (found.base, found.source) if found.plan.noising else (found.source, found.base)
    gap = found.summarise(clean - corrupted)
    pairs = "1 pair" if number == 1 else f"{number:,} pairs"
    yield (
        f"m is {measure.said}: {clean.mean():.3g} for clean texts and {corrupted.mean():.3g} for corrupted "
        f"ones, over {pairs}. The gap, the total effect, is {float(gap.average):.3g} (standard error "
        f"{float(gap.standard_error):.1g})."
        if number > 1
        else f"m is {measure.said}: {clean.mean():.3g} for the clean text and {corrupted.mean():.3g} for the "
        "corrupted one. One pair has no standard error, and p is not defined."
    )
    flips = count_flips(clean, corrupted, signed=measure.signed)
    if measure.signed:
        yield f"In {flips:,} of {pairs}, m is above 0 for the clean text and below 0 for the corrupted one."
    else:
        yield f"In {flips:,} of {pairs}, m is larger for the clean text."
    if number > 1 and abs(float(gap.average)) < BEYOND * float(gap.standard_error):
        yield "The gap is no larger than its error allows for, so shares of it say little."
    if found.outside is not None:
        yield from _describe_outside(found, bench)
    yield from _describe_heads(bench, found, shares)
    yield from _describe_attribution(found)
    if 1 < number < FEW:
        yield f"{number} pairs are few: errors of single heads are rough below {FEW}."


def _describe_outside(found: PatchedPairs, bench: Bench) -> Iterator[str]:
    """Say how much of the gap stands before any head could have seen the difference."""
    assert found.outside is not None
    whole = float(found.gap.mean())
    if whole:
        share = float(found.outside.mean()) / whole
        yield (
            f"{share:.0%} of the gap is how probable the first token that differs is in itself, which no "
            "head of a decoder can carry from one text to the other."
        )
    firsts = bench.objective.firsts[bench.corpus.batches.members]  # type: ignore[attr-defined]
    lengths = bench.corpus.batches.lengths[bench.corpus.batches.members]
    last = int((firsts == lengths - 1).sum())
    if last:
        yield (
            f"In {last:,} pairs the texts differ in their last token alone: there, all effects are 0. Give a "
            "clean and a corrupted beginning instead, with columns answer and other."
        )
    if begin := int((firsts == 0).sum()):
        yield (
            f"In {begin:,} pairs the texts differ in their first token, whose probability the model does not "
            "give: the tokenizer puts no token before a text."
        )


def _describe_heads(bench: Bench, found: PatchedPairs, shares: Shares) -> Iterator[str]:
    """Say how many heads carry the gap, name those that carry most, and warn of sums."""
    places = bench.subject.architecture.places
    there = np.isfinite(shares.share)
    verb = ("undoes", "undo") if found.plan.noising else ("recovers", "recover")
    if not there.any():
        if np.isfinite(found.effect).any():
            yield "Both sides have the same m on average, so that there is no gap to recover."
        return
    what = "heads at positions" if found.plan.positions else "heads"
    tested = int(np.isfinite(shares.adjusted).sum())
    if tested:
        significant = shares.adjusted < SIGNIFICANT
        up, down = (int((significant & (sign * shares.share > 0)).sum()) for sign in (1, -1))
        yield (
            f"Of {tested:,} {what} that were patched, {up or 'none'} significantly "
            f"{verb[up != 1]} a part of the gap, and {down or 'none'} "
            f"{'widens' if down == 1 else 'widen'} it (paired t over documents, adjusted p < {SIGNIFICANT})."
        )
    order = np.argsort(-np.where(there, np.abs(shares.share), -1), axis=None)[:_NAMED]
    named = []
    for cell in order:
        layer, head, *position = map(int, np.unravel_index(cell, shares.share.shape))
        share, error = (float(one[(layer, head, *position)]) for one in (shares.share, shares.error))
        if not there[(layer, head, *position)] or not share:
            continue
        at = f" at position {position[0]}" if position else ""
        spread = f" ± {error * 100:.2g}" if np.isfinite(error) else ""
        named.append(f"head {head} of {places[layer]}{at} ({share * 100:.3g}{spread} %)")
    if named:
        yield f"The largest shares of the gap: {', '.join(named)}."
    if not found.plan.positions and int(there.sum()) == int(bench.subject.architecture.standing.sum()):
        yield (
            f"The shares of {int(there.sum()):,} heads add up to {float(np.nansum(shares.share)):.2f}. They "
            "need not add up to 1: heads pass on what others gave, stand in for each other, and the "
            "residual stream carries a part past all of them."
        )


def _describe_attribution(found: PatchedPairs) -> Iterator[str]:
    """Say how well the first order tells the effect, where both are there for enough heads."""
    if not np.isfinite(found.attribution).any():
        yield "There is no attribution: the weights are quantised, and have no gradients."
        return
    effect, first = (found.summarise(one).average.ravel() for one in (found.effect, found.attribution))
    both = np.isfinite(effect) & np.isfinite(first)
    if both.sum() < 3 or not effect[both].std() or not first[both].std():
        return
    r = float(np.corrcoef(effect[both], first[both])[0, 1])
    slope = float(effect[both] @ first[both] / (effect[both] @ effect[both]))
    yield (
        f"The attribution, of first order, orders {int(both.sum()):,} of them like the effect with r = "
        f"{r:.2f}, and is {slope:.2f} times as large."
    )
