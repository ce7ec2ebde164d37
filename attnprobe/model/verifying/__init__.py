"""The dry run: what must hold before a checkpoint is believed to be read rightly."""
