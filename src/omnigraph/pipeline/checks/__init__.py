"""The second stage: what rows break together, and against what is committed.

- `together`: by the shared validator, in this process; `spark_checks`: by joins of `keys` on Spark.
- `recheck`: under the lock, what others did meanwhile.
"""
