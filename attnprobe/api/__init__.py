"""One function for each command: what ``import attnprobe`` offers. The command line only calls these."""
