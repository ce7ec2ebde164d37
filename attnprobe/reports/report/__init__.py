"""A report: one page about a checkpoint, made of tables and of what heads look at in a few sentences."""
