"""One module per command family.

`graph` (init, snapshot, verify, repair), `upkeep` (optimize, cleanup, du), `index`, `cache`,
`read` (read, change), `branch`, `commit`, `tag`, `run`, `replay` (revert, cherry-pick),
`changes` (diff, changes, history, blame), `schema`, `query`, `queries` (called by name),
`algorithm`, `explain` (explain, profile), `fmt`, `lock`, `shell`, `serve`, `mcp`, `policy`,
`doctor`, `copies` (clone, relocate), `local` (start, status, stop). Heavy imports stay inside the
functions, so that `omnigraph --help` answers at once.
"""
