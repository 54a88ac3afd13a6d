"""Text to vectors at the engine's edge: `embedder` (the protocol), `queries` (text operands)."""
