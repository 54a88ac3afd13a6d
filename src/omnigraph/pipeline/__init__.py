"""Bulk jobs: files and tables into a graph, and back out.

In the order a load runs: `sources` names what is to be read; `staging` gives the load its own
folder; `runner` (`spark`) runs `tasks`, which read `lines`, turn them into typed rows in `records`
(`strict` where a line needs a closer look; `tables` for Parquet, Arrow and CSV) with the help of
`columns` and `row_ids`; `check` finds what the rows break together; `load` commits. `export` writes
a graph out again, its text made by `json_text`.
"""
