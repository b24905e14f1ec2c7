"""`next_token`: predicts the token that follows a window of text."""
