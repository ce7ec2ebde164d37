"""What the page of `view` is made of: its template, its style, its scripts."""
