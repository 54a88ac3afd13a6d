"""Settings: `omnigraph.yaml` and the environment. Everything else is told what they say.

In control-flow order:

- `environment`: the only reader of the process environment; dotenv files; what they mean for
  terminals and object stores.
- `document`: a YAML mapping read key by key, every complaint with its place.
- `settings`: what a file may say, as plain values, and the rules for paths in it.
- `load`: which file, and from file to settings.
- `limits` and `logs`: the limits of calls and what is logged, as file and environment say.
- `cache`: where derived files are kept.
- `embedding`: which embedder they ask for.
- `texts`: schemas and queries as callers pass them.
- `stored`: where stored queries are.
- `scaffold`: the first `omnigraph.yaml` of a new graph.
"""
