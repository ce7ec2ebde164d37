"""How spread the attention of a head is."""
