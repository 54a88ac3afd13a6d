"""Small objects on disk and in object stores: every name, and what each of them says.

- `pins`: snapshots that long readers keep; `sidecar`: what a writer is about to do (its WAL).
- `store_clock`: how old files are, by the clock that dated them; `records`: the plain values.
- `objects` (over `backends`): one interface to a disk and to S3; `layout`: every name on disk.
"""
