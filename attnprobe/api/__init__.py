"""One function a command: what ``import attnprobe`` offers. The command line only calls these."""
