"""Pictures of the attention of one sequence: a page to look around in, vector graphics for a paper."""
