"""`image_rows`: classifies images whose rows are read as a sequence."""
