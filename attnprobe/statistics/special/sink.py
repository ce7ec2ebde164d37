"""Whether a head parks its attention on a boundary token."""

from torch import Tensor

from attnprobe.attention.layout import Layout
from attnprobe.statistics.peak import looked_up, peak, sinks
from attnprobe.statistics.reduction import mean_where
from attnprobe.statistics.special import FAMILY
from attnprobe.statistics.statistic import Statistic


def sink_share(peaks: Tensor, layout: Layout) -> Tensor:
    """Share of queries whose most attended key is a special token or the first token.

    Limits: 0 to 1.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks.
    """
    return mean_where(looked_up(peaks, sinks(layout)), peaks, layout)


SINK = Statistic(
    "sink_share", "share", peak, sink_share,
    family=FAMILY, title="queries that look most at a sink", order=4,
)  # fmt: skip
