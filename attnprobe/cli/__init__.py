"""The front door: commands, options, progress and exit codes."""
