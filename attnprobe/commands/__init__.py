"""One function for each command: what ``import attnprobe`` offers, and what the command line calls."""

import pkgutil
from importlib import import_module

from attnprobe.registry import Command

#: Commands by what they are about, in the order of ``--help``; those that are not named come last.
GROUPS = {
    "Where heads look": (
        "census", "entropy", "positional", "special", "rare", "modality", "distance", "mixing", "rank",
    ),
    "What heads find": ("roles", "syntax", "coreference", "links", "probe", "induction"),
    "Which heads matter": ("importance", "ablate", "interact", "patch", "prune", "correlate"),
    "Several checkpoints": ("compare", "dynamics"),
    "To look at": ("view", "report", "plot"),
    "Tools": ("merge", "doctor"),
}  # fmt: skip


def _find_commands() -> dict[str, Command]:
    """Find the commands in the modules of this package, and sort them by the order of ``--help``."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    values = [value for name in names for value in vars(import_module(f"{__name__}.{name}")).values()]
    declared = [getattr(value, "command", None) for value in values]
    commands = {command.name: command for command in declared if isinstance(command, Command)}
    listed = [name for group in GROUPS.values() for name in group if name in commands]
    return {name: commands[name] for name in dict.fromkeys([*listed, *commands])}


#: Every command that is a function of Python too, by its name.
COMMANDS = _find_commands()
