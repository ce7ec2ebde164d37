"""The pictures on README and the pages of docs/: each is what a command on one of the pages writes.

A page shows ``![...](pictures/NAME.svg)``, and a command on it writes NAME.svg; README and the gallery show
pictures of other pages, too. README has ``<img src="docs/pictures/NAME.svg" alt="...">`` for one shown
larger. The file lies in docs/pictures/; ``python docs/scripts/outputs.py`` puts it there.
"""

import re
import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "pictures"

_SHOWN = re.compile(
    r"!\[(?P<words>[^\]]*)\]\((?:docs/)?pictures/(?P<name>[\w-]+\.\w+)\)"
    r'|<img src="docs/pictures/(?P<larger>[\w-]+\.\w+)"[^>]* alt="(?P<alt>[^"]*)">'
)


def describe(page: str) -> list[tuple[str, str]]:
    """Name the pictures and screens that a page shows, in their order, and the words that stand for each."""
    return [(one["name"] or one["larger"], one["words"] or one["alt"] or "") for one in _SHOWN.finditer(page)]


def pictures(page: str) -> list[str]:
    """Name the pictures that a page shows, in their order; screens (``screens.py``) are not among them."""
    return list(dict.fromkeys(name for name, _ in describe(page) if name.endswith(".svg")))


def written(page: str, folder: Path) -> list[str]:
    """Name the pictures that a page shows and that its commands have written into a folder."""
    return [name for name in pictures(page) if (folder / name).exists()]


def keep(page: str, folder: Path) -> None:
    """Keep the pictures that a page shows and that its commands have written into a folder."""
    FOLDER.mkdir(exist_ok=True)
    for name in written(page, folder):
        shutil.copyfile(folder / name, FOLDER / name)
