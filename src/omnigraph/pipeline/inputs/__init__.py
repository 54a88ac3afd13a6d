"""From bytes, lines and cells to typed rows, with every fault named by its place.

- `sources` names what is to be read; `files` opens it, on disk and in object stores.
- `lines` reads whole blocks of any byte range; `records` turns them into rows,
  `strict` looks closer where a line does not fit; `plain_lines` reads what is not split.
- `tables` reads Parquet, Arrow and CSV (`csv_files`, in any `dialect`); `readable` finds text that
  is none; `odd_cells` looks at single cells where a column does not fit, with `columns` and
  `moments`.
- `rows`: typed rows of one type; `row_ids`: their ids; `faults`: what is wrong, by place.
"""
