"""The main job: ask every head about every sequence of a corpus, and tabulate the answers."""
