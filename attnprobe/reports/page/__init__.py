"""Pages: charts in html that is complete in itself, under a policy that lets no other script run."""
