"""A whole stack of recurrent layers in one library call: the kernel `fused`.

`fused_stack` has the Keras layer. Each backend has a module with `run_stack(layer, sequences,
states, lengths, is_right_padded, training=…)`. It returns the outputs of the last layer at every
step `(batch, steps, directions·units)`, and the final states of all layers, each of the shape
`(layers·directions, batch, units)`. `lengths` and `is_right_padded` are None without a mask.

The call has a scope named `SCOPE`, by which evidence recognises it in a graph, a program or a
profile.
"""

SCOPE = "fused_stack"

LEFT_PADDED = (
    "mask: expected padding on the right, after at least one unmasked step; received another mask,"
    " which the library's call would silently misread: pad on the right, or use the portable"
    " kernel"
)
