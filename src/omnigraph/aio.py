"""Graphs on servers for programs with an event loop.

graph = omnigraph.aio.connect("http://127.0.0.1:8080")
rows = await graph.query("query all() { match { $p: Person } return { $p.name } }")
"""

from omnigraph.client.aio import AsyncBranches, AsyncCommits, AsyncGraph, AsyncTags, connect

__all__ = ["AsyncBranches", "AsyncCommits", "AsyncGraph", "AsyncTags", "connect"]
