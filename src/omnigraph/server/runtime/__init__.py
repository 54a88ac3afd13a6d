"""What listens: `granian` (the default: several workers, slow headers time out) or `uvicorn`.

`sockets` finds a port that is free, and says when the server answers; `draining` lets running
requests end before a worker does; `main` starts one of the two.
"""
