"""What happens to a task when heads are switched: importance, ablation, pruning, correlation."""
