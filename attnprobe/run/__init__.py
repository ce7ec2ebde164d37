"""What every long run needs: memory, processes, a state on disk, a record of what was done."""
