"""Bulk jobs: files and tables into a graph, and back out.

`model` says what is asked for; what is reported are values of `api`. The rooms, from the top:

- `load`: a load from beginning to end; `export`, `embed`, `infer`: the other jobs.
- `checks`: what rows break together, and against what is committed.
- `stages`: the units of work that run anywhere: read and spill, write fragments.
- `run`: who runs them: this process or Spark.
- `inputs`: from bytes, lines and cells to typed rows.
"""
