"""A graph, or some of its tables, written out again.

- `write`: JSON lines or Parquet; `json_text`: columns as JSON text.
"""
