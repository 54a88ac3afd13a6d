"""The accepted schema as values: catalog, schema IR, identity, migrations.

In control-flow order: `build` (text to IR to catalog, the entry), `names` and `patterns` (what
can go wrong across declarations), `schema_ir` (the meaning, in canonical order), `identity` (ids
that survive renames), `ir_json` (the stored form and its hash), `model` (the catalog everyone
reads), `arrow` (table columns), `migration` (accepted to desired), `steps` (what a plan is
made of), `reconcile` (two schemas put together), `spell` (a schema that nobody wrote, as a text).
"""
