"""Physical upkeep and what operators ask for; rows keep their meaning throughout.

- `repair`, `verify`, `deep`: what is wrong, by rules and by bytes, and what can be done about it.
- `maintain`, `indexing`: fewer pieces of the same rows; faster ways to them.
- `cleanup`, `orphans`, `needed`: what nobody needs goes; what must stay.
- `upgrade`, `relocation`, `copying`, `usage`: older formats, moved graphs, copies, space taken.
"""
