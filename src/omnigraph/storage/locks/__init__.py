"""One writer at a time, on disk and in object stores.

- `by_name`: locks as everybody takes them, with waiting and turns inside one process.
- `flocks`: the kernel's own file locks; `leases`: objects with rising epochs that must be renewed.
- `holders`: who holds one, and the check before every durable step.
"""
