"""Where a table goes: standard output, a terminal."""
