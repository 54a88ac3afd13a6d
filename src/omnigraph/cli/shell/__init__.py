r"""The interactive loop.

In control-flow order: `loop` (a terminal or a pipe, line by line), `statement` (where one ends,
and what it is), `session` (running statements and `\` commands against one graph, `describe`),
`complete` (what may come next, from the schema).
"""
