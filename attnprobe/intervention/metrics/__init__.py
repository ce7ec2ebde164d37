"""What an ablation is scored by, and whether a difference in score is more than chance."""
