"""Recurrent models: layers, weights, checkpoints and training steps."""
