"""Each place where the documents say that something is added: tests that add it there."""
