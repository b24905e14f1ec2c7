"""Numbers from the records of a sweep. No text for people."""
