"""Units of work that run in any process: they read pieces and leave files behind.

- `tasks`: the first stage: read one piece of input, check row by row, spill, report.
- `loaded`: what it left; `staging`: the folder it is left in.
- `fragments`: the third stage: new fragments of tables, and reading those of committed ones.
"""
