"""The soak: processes and threads over the whole public API, with faults, judged by a plain model.

`python -m tests.soak --seed 7 --seconds 60` (or `make soak`) prints its seed and what it did. In
control-flow order: `__main__` reads the flags; `run` starts a place, workers and faults; `places`
are a disk and a real S3 server behind a slow line; `worker` is one process with some threads;
`operations` are what a thread does; `faults` kill, freeze, fill and cut off; `model` is what should
have come of it, in plain dictionaries; `past` has that for every commit, with its own search for
what merged lines have in common; `judge` compares.

`clients` is a soak of its own: many clients of one server, which is killed and started again.

An operation signs its commit: the actor of a commit is the name of the operation. So the line of
commits says what happened in which order, whatever was killed in between, and every answer any
thread ever got can be checked against the model at the commit it was given for.
"""
