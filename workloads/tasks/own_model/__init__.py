"""A model of the user's own: `build` returns it, `load` returns its data."""
