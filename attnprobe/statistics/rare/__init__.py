"""Whether a head looks at rare tokens."""
