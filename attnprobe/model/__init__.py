"""Everything that knows transformers: loading, reading, switching, verifying, removing."""
