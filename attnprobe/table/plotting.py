"""What draws a table: a hook that the package sets, as a table knows no room above its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnprobe.table.destination import Saveable

#: The function ``attnprobe.plot``.
draw: "Callable[..., Saveable]"
