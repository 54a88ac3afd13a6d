"""A graph on a server, with the methods and the errors of a local one.

`asks` says every question as a request and how its answer is read, `wire` what a request is and
when it may be sent again, `errors` what an error of the server is here, `uploads` how files and
frames are sent. None of them touches a socket: that is left to `transport` (sync) and `aio`
(async), under `graph` and `omnigraph.aio`.
"""

from omnigraph.client.graph import RemoteBranch, RemoteGraph, RemoteView, connect

__all__ = ["RemoteBranch", "RemoteGraph", "RemoteView", "connect"]
