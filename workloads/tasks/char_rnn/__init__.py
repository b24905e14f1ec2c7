"""`char_rnn`: a character-level language model, which writes a text after training."""
