"""attnprobe: what every attention head of a pretrained checkpoint does, with error bars.

The names load on first use, so that ``import attnprobe`` and ``attnprobe --help`` need neither torch nor
transformers. Each command is a function; ``__init__.pyi`` shows editors its keywords.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "AttentionBlock": "attnprobe.attention.block",
    "AttnprobeError": "attnprobe.errors",
    "AttnprobeWarning": "attnprobe.errors",
    "HeadCallback": "attnprobe.commands.call.training",
    "HeadTable": "attnprobe.table.table",
    "Source": "attnprobe.corpus.sources.text",
    "Statistic": "attnprobe.statistics.statistic",
    "load_pruned": "attnprobe.model.pruned",
    "statistic": "attnprobe.statistics.statistic",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "__version__":  # to look it up takes longer than all else here
        from importlib.metadata import version

        return version("attnprobe")
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'attnprobe' has no attribute {name!r}")
    commands = import_module("attnprobe.commands").COMMANDS
    if name == "__all__":
        value: Any = sorted([*_HOMES, *commands])
    elif name in commands:
        value = commands[name].function
        value.__doc__ = commands[name].documentation
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'attnprobe' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*__getattr__("__all__"), "__version__"])
