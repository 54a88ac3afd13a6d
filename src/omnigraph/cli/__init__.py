"""The `omnigraph` command. Thin: parse arguments, call the rooms below, render.

`app` is the entry, `output` decides how results, errors and exit codes look, `files` reads and
replaces source files, `commands` has one module per family.
"""
