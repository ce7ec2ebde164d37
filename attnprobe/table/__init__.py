"""The table that every command returns: names, units, rows, provenance."""
