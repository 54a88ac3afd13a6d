"""From a write session to one visible commit.

- `session`: what the engine collects writes in; `bulk_load`: loads that write files from elsewhere.
- `window`: the exclusive part: re-read, re-validate, publish, or say what became of it.
- `intent`: what exactly is published on top of this head; `write_set`: what was asked for.
"""
