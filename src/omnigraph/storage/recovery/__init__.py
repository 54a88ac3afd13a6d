"""What an interrupted writer, or another tool, left behind.

- `recover`: decides what becomes of a pending sidecar; `drift`: what nobody wrote down.
- `healing`: carries the decision out; `evidence`: what the tables prove.
"""
