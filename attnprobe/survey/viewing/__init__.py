"""One sequence, seen whole: its tokens, and what every head looks at."""
