"""The page for people, as files: `files` reads them once and says how a browser is to take them.

Our own code is ES modules as they are written (`app/`), style sheets (`style/`) and one document;
`vendor/` holds bundles of libraries, made by `make vendor` and never by hand. Nothing here knows a
graph: the page asks the server's public routes, as any client does.
"""
