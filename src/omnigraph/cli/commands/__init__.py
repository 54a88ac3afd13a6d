"""One module per command family.

`graph` (init, snapshot, verify), `read` (read, change), `branch`, `commit`, `schema`, `query`,
`explain` (explain, profile), `fmt`, `lock`, `shell`. Heavy imports stay inside the functions, so
that `omnigraph --help` answers at once.
"""
