"""The catalog table `__manifest`: what it states now, what it stated, how it moves.

- `publish`: the commit protocol, from an intent to the one swap that makes it visible.
- `merging`: the side a commit merges in, pinned and kept with it.
- `line`: every state of a branch, in one pass over its history.
- `projections`, `history`, `contracts`: views of the commits, lines of commits, schema
  files by content.
- `snapshot`: one immutable view of every table, and the heads it is taken from.
- `ancestry`: which commits come before which, and what two lines have in common.
- `digests`: what commits state of the bytes of the files they add.
- `legacy`, `rows`: the rows of the manifest, as they were and as they are.
"""
