"""Where a head looks, by position."""
