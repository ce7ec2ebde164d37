"""What is asked: loading a checkpoint and reaching its attention. The only importer of transformers."""
