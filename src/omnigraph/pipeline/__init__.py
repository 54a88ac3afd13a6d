"""Bulk jobs: files and tables into a graph, and back out.

In the order a load runs: `model` says what is asked for; `sources` names what is to be read;
`staging` gives the load its own folder; `engines` picks a `runner`, in this process or on `spark`
(with a Java process from `spark_jvm`), for the `tasks`. A task reads `lines` and turns them into
typed `rows` in `records` (`strict` where a line needs a closer look), or reads `tables` (Parquet,
Arrow, CSV), with the help of `columns` and `row_ids`, and keeps `faults`. `check` finds what the
rows break together, `load` commits, `progress` hears of it. `export` writes a graph out again, its
text made by `json_text`.
"""
