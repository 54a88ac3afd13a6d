"""Adapters that turn text into vectors: `local` (offline, the default), `mock` (for tests).

Each implements the engine's `Embedder` protocol; none knows graphs.
"""
