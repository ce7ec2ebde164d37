"""attnprobe: what every attention head of a pretrained encoder does, with error bars.

The names below load on first use, so that ``import attnprobe`` and ``attnprobe --help`` need
neither torch nor transformers.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import Source
    from attnprobe.errors import AttnprobeError
    from attnprobe.intervention.functions import ablate, correlate, importance, prune
    from attnprobe.model.loading.load import LoadOptions
    from attnprobe.model.loading.pruned import load_pruned
    from attnprobe.survey.census import census
    from attnprobe.table.head_table import HeadTable

__all__ = [
    "AttnprobeError",
    "HeadTable",
    "LoadOptions",
    "Source",
    "ablate",
    "census",
    "correlate",
    "importance",
    "load_pruned",
    "prune",
]
__version__ = version("attnprobe")

_HOMES = {
    "AttnprobeError": "attnprobe.errors",
    "HeadTable": "attnprobe.table.head_table",
    "LoadOptions": "attnprobe.model.loading.load",
    "Source": "attnprobe.corpus.sources.text",
    "ablate": "attnprobe.intervention.functions",
    "census": "attnprobe.survey.census",
    "correlate": "attnprobe.intervention.functions",
    "importance": "attnprobe.intervention.functions",
    "load_pruned": "attnprobe.model.loading.pruned",
    "prune": "attnprobe.intervention.functions",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attnprobe' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__all__, "__version__"])
