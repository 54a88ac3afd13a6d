"""What must change in one version of a table to make it another, by content.

In control-flow order: `table` finds the rows that may differ and hands them on; `sorted_spill`
keeps both sides on disk, in ranges of ids, where they are too many for memory; `confirm` compares
a piece of both sides row by row. `warm` brings images up to date with it, and asks Lance instead
where files were rewritten but hardly a row. Knows tables and columns, not what they mean; whoever
knows the schema says which column of one side is which of the other.
"""
