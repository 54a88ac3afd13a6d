"""The `omnigraph` command. Thin: parse arguments, call the rooms below, render.

In control-flow order: `app` (the entry), `tree` (all commands by name), `options` (flags by name),
`shared` (options of several commands, declared once), `given` (what they come to),
`target` (which graph), `complete` (what a terminal offers), `request` (which query, with which
parameters), `files` (source files),
`commands` (one module per family), `shell` (the interactive loop), `formats` (layouts of rows),
`change_lines` (changes as lines), `commit_graph` (commits as a drawing), `conflict_files`
(conflicts to be settled by hand), `output` (errors and exit codes), `progress` (bars of long jobs),
`logs` (notes on stderr), `light` (commands without pandas).
"""
