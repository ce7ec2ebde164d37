"""attnprobe: what every attention head of a pretrained checkpoint does, with error bars.

The names load on first use, so that ``import attnprobe`` and ``attnprobe --help`` need neither torch nor
transformers. Each command is a function, whose keywords editors see by its annotations.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnprobe.attention.block import AttentionBlock as AttentionBlock
    from attnprobe.commands._training import HeadCallback as HeadCallback
    from attnprobe.commands.census import census as census
    from attnprobe.commands.census import distance as distance
    from attnprobe.commands.census import entropy as entropy
    from attnprobe.commands.census import mixing as mixing
    from attnprobe.commands.census import modality as modality
    from attnprobe.commands.census import positional as positional
    from attnprobe.commands.census import rank as rank
    from attnprobe.commands.census import rare as rare
    from attnprobe.commands.census import special as special
    from attnprobe.commands.compare import compare as compare
    from attnprobe.commands.compare import dynamics as dynamics
    from attnprobe.commands.correlate import correlate as correlate
    from attnprobe.commands.correlate import merge as merge
    from attnprobe.commands.doctor import doctor as doctor
    from attnprobe.commands.intervene import ablate as ablate
    from attnprobe.commands.intervene import importance as importance
    from attnprobe.commands.intervene import interact as interact
    from attnprobe.commands.intervene import patch as patch
    from attnprobe.commands.intervene import prune as prune
    from attnprobe.commands.links import coreference as coreference
    from attnprobe.commands.links import links as links
    from attnprobe.commands.links import probe as probe
    from attnprobe.commands.links import syntax as syntax
    from attnprobe.commands.report import report as report
    from attnprobe.commands.roles import induction as induction
    from attnprobe.commands.roles import roles as roles
    from attnprobe.commands.view import plot as plot
    from attnprobe.commands.view import view as view
    from attnprobe.corpus.source import Source as Source
    from attnprobe.errors import AttnprobeError as AttnprobeError
    from attnprobe.errors import AttnprobeWarning as AttnprobeWarning
    from attnprobe.model.pruning import load_pruned as load_pruned
    from attnprobe.statistics.statistic import Statistic as Statistic
    from attnprobe.statistics.statistic import statistic as statistic
    from attnprobe.table.table import HeadTable as HeadTable

    __version__: str

_HOMES = {
    "AttentionBlock": "attnprobe.attention.block",
    "AttnprobeError": "attnprobe.errors",
    "AttnprobeWarning": "attnprobe.errors",
    "HeadCallback": "attnprobe.commands._training",
    "HeadTable": "attnprobe.table.table",
    "Source": "attnprobe.corpus.source",
    "Statistic": "attnprobe.statistics.statistic",
    "load_pruned": "attnprobe.model.pruning",
    "statistic": "attnprobe.statistics.statistic",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "__version__":  # to look it up takes longer than all else here
        from importlib.metadata import version

        return version("attnprobe")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        commands = import_module("attnprobe.commands").COMMANDS
        if name == "__all__":
            return sorted([*_HOMES, *commands])
        if name not in commands:
            raise AttributeError(f"module 'attnprobe' has no attribute {name!r}")
        value = commands[name].function
        value.__doc__ = commands[name].documentation
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__getattr__("__all__"), "__version__"])
