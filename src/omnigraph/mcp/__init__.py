"""Tools for agents, over the Model Context Protocol: the graph as far as an agent may use it.

In control-flow order: `stdio` and `mounted` (how calls come in), `service` (the protocol, by the
official library of the `mcp` extra, which nothing else here imports), `toolbox` (which tools an
agent is given), `reading`, `writing` and `stored` (what they do), `tools` (what a tool is), `desk`
(where one agent works), `rules` (what agents may do beside a policy), `answers`, `cursors`,
`schema_text`, `told` (what an agent is told: rows, pages, types, errors), `texts` (instructions,
resources, prompts).

Values of the graph are answers and nothing else: no name, description or instruction of a tool is
made of them.
"""
