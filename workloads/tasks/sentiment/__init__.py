"""`sentiment`: classifies reviews as good or bad."""
