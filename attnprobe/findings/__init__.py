"""From tables to tables: correlation, comparison, changes over training, merging."""
