"""From one schema of a branch to the next: what becomes of its tables, and that rows may stay.

In control-flow order: `fill` makes values of columns that rows do not have; `tables` tells from
two catalogs which tables and columns come, go and are called otherwise; `rules` holds existing
rows to rules that are new; `apply` makes one commit of it.
"""
