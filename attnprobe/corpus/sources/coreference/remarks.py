"""What the readers of coreference leave out, said in a sentence."""

import warnings
from collections.abc import Mapping

from attnprobe.errors import AttnprobeWarning


def say_left_out(name: str, what: str, left_out: Mapping[str, int]) -> None:
    """Warn of what was left out of a file, with a number for each reason.

    Args:
        name: Of the file.
        what: One of what was left out, such as "row".
        left_out: How many, by what they are: "in which nobody is meant".
    """
    reasons = [f"{n:,} {what}{'s' * (n != 1)} {reason}" for reason, n in left_out.items() if n]
    if reasons:
        warnings.warn(f"left out of {name}: {'; '.join(reasons)}.", AttnprobeWarning, stacklevel=3)
