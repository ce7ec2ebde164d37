"""A table as bytes, with one file for each format."""
