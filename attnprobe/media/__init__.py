"""Images and sound: which files there are, what is in them, and batches of them."""
