"""What goes in: documents, exact-length batches, the sentences that ship with the package."""
