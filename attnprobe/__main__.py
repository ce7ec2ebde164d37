"""``python -m attnprobe``, and the program ``attnprobe``: it listens to signals, then imports the rest."""

import os
import sys

from attnprobe.cli.stopping import stopping


def main() -> None:
    """Run the command line and leave with its exit code: 0, 1 for a failed check, 2 for bad input."""
    words = sys.argv[1:]
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - until the end
    stopping.listen(words)
    from attnprobe.cli.app import run
    from attnprobe.model import lean

    if os.environ.get("WORLD_SIZE", "1") == "1":
        lean.install()
    stopping.leave(run(words))


if __name__ == "__main__":
    main()
