"""What the state store is made of: its file, tables and rows, and what is done with a file that cannot be used."""
