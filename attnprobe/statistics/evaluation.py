"""Asking a statistic, whoever wrote it, and refusing what it should not say."""

from collections.abc import Callable

from torch import Tensor

from attnprobe.attention.block import AttentionBlock, HeadParameters
from attnprobe.attention.layout import Layout
from attnprobe.errors import AttnprobeError, first_line, out_of_memory
from attnprobe.statistics.statistic import Statistic, mean_and_error


def evaluate(statistic: Statistic, block: AttentionBlock) -> Tensor:
    """Ask a statistic about a block.

    Raises:
        AttnprobeError: When it fails, or does not give what its scope promises.
    """
    values = _answer(statistic, lambda: statistic.function(block))
    batch, heads, queries, _ = block.probabilities.shape
    fits = values.ndim > 1 and values.shape[0] == batch
    if statistic.scope == "query":
        fits = fits and values.ndim == 3 and values.shape[2] == queries
    if statistic.rows == "head" and statistic.reduce is None:
        fits = fits and values.shape[1] == heads
    if not fits:
        last = ", query" if statistic.scope == "query" else ""
        raise AttnprobeError(
            f"The statistic {statistic.name!r} gave a tensor of shape {tuple(values.shape)} for a block of "
            f"{batch} sequences, {heads} heads and {queries} queries; it must be (batch, head{last})."
        )
    if not values.is_floating_point():  # a share of yes and no
        values = values.to(block.probabilities.dtype)
    return values


def evaluate_parameters(statistic: Statistic, parameters: HeadParameters) -> Tensor:
    """Ask a statistic about the weights of a layer's heads.

    Raises:
        AttnprobeError: When it fails, or does not give a number for each head.
    """
    values = _answer(statistic, lambda: statistic.function(parameters))
    if values.shape != parameters.queries.shape[:1]:
        raise AttnprobeError(
            f"The statistic {statistic.name!r} gave a tensor of shape {tuple(values.shape)} for the weights "
            f"of {len(parameters.queries)} heads; it must be (head,)."
        )
    return values


def reduce_sequences(statistic: Statistic, found: Tensor, layout: Layout, heads: int) -> Tensor:
    """Take what a statistic gave for whole sequences to what is summed up.

    Raises:
        AttnprobeError: When it fails, or does not give a row for each head.
    """
    values = _answer(statistic, lambda: statistic.of_sequences(found, layout))
    fits = values.ndim > 1 and values.shape[0] == found.shape[0]
    if statistic.rows == "head":
        fits = fits and values.shape[1] == heads
        fits = fits and (values.ndim == 2 or statistic.columns is not mean_and_error)
    if not fits:
        raise AttnprobeError(
            f"The statistic {statistic.name!r} came to a tensor of shape {tuple(values.shape)} for "
            f"{found.shape[0]} sequences and {heads} heads; it must be (batch, head)."
        )
    return values


def _answer(statistic: Statistic, ask: Callable[[], Tensor]) -> Tensor:
    try:
        values = ask()
    except AttnprobeError:
        raise
    except Exception as error:  # whatever a function of a stranger's does
        if out_of_memory(error):  # half of the batch may fit
            raise
        raise AttnprobeError(
            f"The statistic {statistic.name!r} failed ({type(error).__name__}: {first_line(error)}); "
            "try it on a block of its own."
        ) from error
    if not isinstance(values, Tensor):
        raise AttnprobeError(
            f"The statistic {statistic.name!r} must return a tensor, not {type(values).__name__}."
        )
    return values
