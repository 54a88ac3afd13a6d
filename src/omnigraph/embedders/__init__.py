"""Adapters that turn text into vectors.

`choose` (from options to one of them), `local` (offline, the default), `openai`, `gemini`,
`http` (what services share), `mock` (for tests). Each implements the engine's `Embedder` protocol;
none knows graphs.
"""
