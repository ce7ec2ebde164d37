"""The dry run: what must hold before attnprobe believes that it reads a checkpoint rightly."""
