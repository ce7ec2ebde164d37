"""The attention of one sentence: a page to look around in, or a picture."""
