"""One module per command family: `schema`, `query`, `explain`, `fmt`.

Heavy imports stay inside the functions, so that `omnigraph --help` answers at once.
"""
