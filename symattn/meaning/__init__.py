"""What a formula means: the index form, and the table of elementwise functions."""
