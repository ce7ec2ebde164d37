"""Tables as pictures: one file a kind of picture, from a table to an altair chart."""
