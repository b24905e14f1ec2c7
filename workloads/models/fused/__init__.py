"""A whole stack of recurrent layers in one library call: the kernel `fused`.

`fused_stack` has the Keras layer. Each backend has a module with `run_stack(layer, sequences,
states, lengths, is_right_padded, training=…)`, which returns the outputs of the last layer at every
step `(batch, steps, directions·units)`, and the final states of all layers, each
`(layers·directions, batch, units)`. `lengths` and `is_right_padded` are None without a mask.
Evidence recognises the call by the scope named `SCOPE`.
"""

SCOPE = "fused_stack"

LEFT_PADDED = (
    "mask: expected padding on the right, after at least one unmasked step; received another mask,"
    " which the library's call would silently misread: pad on the right, or use the portable"
    " kernel"
)
