"""A table as bytes: one file a format."""
