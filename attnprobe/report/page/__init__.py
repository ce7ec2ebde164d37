"""Pages of one file: no network, a strict policy, and every string that others wrote as text."""
