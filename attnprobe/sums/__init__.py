"""What is kept of a corpus: sums that merge, so that an update is an addition."""
