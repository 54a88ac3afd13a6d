"""Read queries on Spark: the same rows, in the same order and types, beyond one machine.

`run` (a query as a DataFrame, a table, batches) puts together, in this order: `support` (what Spark
cannot run), `ranking` (scores become columns), `match` (operators become joins) over `scan` (tables
read in tasks), and `answer` (order, distinct rows, the window) with `groups`. In tasks it is the
local engine that evaluates, over `batches`; `carried` is how values travel and are compared.
"""
