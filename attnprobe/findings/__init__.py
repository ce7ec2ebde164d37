"""From tables to tables: correlation, merging, correction of p values."""
