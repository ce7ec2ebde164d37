"""``python -m attnprobe``."""

from attnprobe.cli.app import main

if __name__ == "__main__":
    main()
