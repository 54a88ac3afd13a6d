"""Text to vectors at the engine's edge.

`options` (which embedder), `embedder` (the protocol), `spaces` (which model filled a column),
`queries` (text operands).
"""
