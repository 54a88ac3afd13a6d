"""An object store and a server on this machine, started by one command and stopped by another.

- `processes`: programs that outlive the command that started them, known again by pid and start.
- `object_store`: the packaged S3 server, with one bucket.
- `stack`: the steps from an empty folder to a served graph; what is there already is kept.
"""
