"""What a user can act on: the base of every error that ends in a message and exit code 2."""


class Refusal(Exception):
    """Nothing was run; the message says where, what was expected, what was received, what next."""
