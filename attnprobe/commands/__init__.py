"""One function for each command: what ``import attnprobe`` offers, and what the command line calls."""

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain

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


def sort_commands(commands: Iterable[Command]) -> dict[str, Command]:
    """Sort commands by the order of ``--help``, each by its name."""
    place = {name: number for number, name in enumerate(chain.from_iterable(GROUPS.values()))}
    return {one.name: one for one in sorted(commands, key=lambda one: place.get(one.name, len(place)))}


def _find_commands() -> Iterator[Command]:
    for module in pkgutil.iter_modules(__path__):
        if not module.ispkg and not module.name.startswith("_"):
            for value in vars(import_module(f"{__name__}.{module.name}")).values():
                if isinstance(command := getattr(value, "command", None), Command):
                    yield command


#: Every command that is a function of Python too, by its name.
COMMANDS = sort_commands(_find_commands())
