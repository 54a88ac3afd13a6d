"""The `omnigraph` command. Thin: parse arguments, call the rooms below, render.

In control-flow order: `app` (the entry), `tree` (all commands by name), `options` (shared flags),
`target` (which graph), `request` (which query, with which parameters), `files` (source files),
`commands` (one module per family), `shell` (the interactive loop), `formats` (layouts of rows),
`output` (errors and exit codes).
"""
