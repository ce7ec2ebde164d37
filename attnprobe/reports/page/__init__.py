"""HTML pages that are complete in themselves: how one is made and read back; a browser gets ``assets``."""
