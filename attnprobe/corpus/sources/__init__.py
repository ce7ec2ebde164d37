"""Documents: read from files, folders, standard input and the hub."""
