"""Text to vectors at the engine's edge.

`embedder` (the protocol), `spaces` (which model filled a column), `queries` (text operands).
"""
