"""Bulk jobs: files and tables into a graph, and back out.

`model` says what is asked for and what is reported, `progress` hears of it. A load, in order:

- `load` drives it; `sources` names what is to be read, on disk and in object stores (`files`);
  `staging` gives it a folder; `engines` picks who runs its tasks: this process (`runner`) or
  `spark` (with a Java process from `spark_jvm`).
- First stage, `tasks`: read `lines` and turn them into typed `rows` in `records` (`strict` where a
  line needs a closer look), or read `tables` (`csv_files` among them; `odd_cells` where a
  column needs one), with `columns`, `moments` and `row_ids`; keep `faults`. What is left
  on disk is `loaded`.
- Second stage, `check`: what rows break together; where their keys are too many for one process,
  `spark_checks` joins `keys` on Spark. Then `fill` makes vectors from text, and `kept_vectors`
  none of them twice.
- Third stage, `commit`: `fragments` are written and committed once; `recheck` looks at what others
  did meanwhile.

`export` writes a graph out again, its text made by `json_text`. `spark_types` says how columns look
to Spark. `embed_spec`, `embed_file` and `embed_graph` make vectors in files and graphs; `infer`
drafts a schema from files, with types from `guess`; `plain_lines` reads what is not split.
"""
