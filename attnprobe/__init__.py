"""attnprobe: what every attention head of a pretrained checkpoint does, with error bars.

The names below load on first use, so that ``import attnprobe`` and ``attnprobe --help`` need
neither torch nor transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnprobe.api.ablate import ablate
    from attnprobe.api.census import census, distance, entropy, positional, rare, special
    from attnprobe.api.compare import compare
    from attnprobe.api.correlate import correlate
    from attnprobe.api.doctor import doctor
    from attnprobe.api.dynamics import dynamics
    from attnprobe.api.importance import importance
    from attnprobe.api.induction import induction
    from attnprobe.api.links import coreference, links, syntax
    from attnprobe.api.merge import merge
    from attnprobe.api.mixing import mixing
    from attnprobe.api.plot import plot
    from attnprobe.api.prune import prune
    from attnprobe.api.rank import rank
    from attnprobe.api.record import record
    from attnprobe.api.report import report
    from attnprobe.api.roles import roles
    from attnprobe.api.view import view
    from attnprobe.attention.block import AttentionBlock
    from attnprobe.corpus.sources.text import Source
    from attnprobe.errors import AttnprobeError, AttnprobeWarning
    from attnprobe.model.pruned import load_pruned
    from attnprobe.statistics.statistic import Statistic, statistic
    from attnprobe.table.head_table import HeadTable

__all__ = [
    "AttentionBlock",
    "AttnprobeError",
    "AttnprobeWarning",
    "HeadTable",
    "Source",
    "Statistic",
    "ablate",
    "census",
    "compare",
    "coreference",
    "correlate",
    "distance",
    "doctor",
    "dynamics",
    "entropy",
    "importance",
    "induction",
    "links",
    "load_pruned",
    "merge",
    "mixing",
    "plot",
    "positional",
    "prune",
    "rank",
    "rare",
    "record",
    "report",
    "roles",
    "special",
    "statistic",
    "syntax",
    "view",
]

_HOMES = {
    "AttentionBlock": "attnprobe.attention.block",
    "AttnprobeError": "attnprobe.errors",
    "AttnprobeWarning": "attnprobe.errors",
    "HeadTable": "attnprobe.table.head_table",
    "Source": "attnprobe.corpus.sources.text",
    "Statistic": "attnprobe.statistics.statistic",
    "ablate": "attnprobe.api.ablate",
    **dict.fromkeys(
        ("census", "distance", "entropy", "positional", "rare", "special"), "attnprobe.api.census"
    ),
    **dict.fromkeys(("coreference", "links", "syntax"), "attnprobe.api.links"),
    "compare": "attnprobe.api.compare",
    "correlate": "attnprobe.api.correlate",
    "doctor": "attnprobe.api.doctor",
    "dynamics": "attnprobe.api.dynamics",
    "importance": "attnprobe.api.importance",
    "induction": "attnprobe.api.induction",
    "load_pruned": "attnprobe.model.pruned",
    "merge": "attnprobe.api.merge",
    "mixing": "attnprobe.api.mixing",
    "plot": "attnprobe.api.plot",
    "prune": "attnprobe.api.prune",
    "rank": "attnprobe.api.rank",
    "record": "attnprobe.api.record",
    "report": "attnprobe.api.report",
    "roles": "attnprobe.api.roles",
    "statistic": "attnprobe.statistics.statistic",
    "view": "attnprobe.api.view",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "__version__":  # to look it up takes longer than all else here
        from importlib.metadata import version

        return version("attnprobe")
    if name not in _HOMES:
        raise AttributeError(f"module 'attnprobe' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__all__, "__version__"])
