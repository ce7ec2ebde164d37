"""``python -m attnprobe``, and the program ``attnprobe``: it listens to signals, then imports the rest."""

import sys

from attnprobe.cli.stopping import stopping


def main() -> None:
    """Run the command line and leave with its exit code."""
    stopping.listen(sys.argv[1:])
    from attnprobe.cli.app import main as run

    try:
        run()
    except SystemExit as leaving:
        stopping.leave(leaving.code)


if __name__ == "__main__":
    main()
