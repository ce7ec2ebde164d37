"""Asking a statistic about a block, whoever wrote it."""

from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.errors import AttnprobeError, first_line, out_of_memory
from attnprobe.statistics.statistic import Statistic


def asked(statistic: Statistic, block: AttentionBlock) -> Tensor:
    """Ask a statistic about a block.

    Raises:
        AttnprobeError: When it fails, or does not give what its scope promises.
    """
    try:
        values = statistic.function(block)
    except AttnprobeError:
        raise
    except Exception as error:  # whatever a function of a stranger's does
        if out_of_memory(error):  # half of the batch may fit
            raise
        raise AttnprobeError(
            f"The statistic {statistic.name!r} failed ({type(error).__name__}: {first_line(error)}); "
            "try it on a block of its own."
        ) from error
    batch, heads, queries, _ = block.probabilities.shape
    if not isinstance(values, Tensor):
        raise AttnprobeError(
            f"The statistic {statistic.name!r} must return a tensor, not {type(values).__name__}."
        )
    shape = list(values.shape)
    fits = len(shape) > 1 and shape[0] == batch
    if statistic.scope == "query":
        fits = fits and len(shape) == 3 and shape[2] == queries
    if statistic.rows == "head" and statistic.scope != "layer":
        fits = fits and (shape[1] == heads or statistic.reduce is not None)
    if not fits:
        expected = (batch, heads, queries) if statistic.scope == "query" else (batch, heads, "...")
        raise AttnprobeError(
            f"The statistic {statistic.name!r} gave a tensor of shape {tuple(shape)} for a block of {batch} sequences, "
            f"{heads} heads and {queries} queries; it must be (batch, head, query) = {expected}."
        )
    return values
