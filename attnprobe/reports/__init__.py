"""What people look at: a terminal, pictures, pages; and where a table goes."""
