"""Settings for tests that are not about durability: the disk need not be waited for."""

from omnigraph import GraphOptions
from omnigraph.storage.options import StorageOptions

FAST = GraphOptions(storage=StorageOptions(durability="os", maintenance="manual"))
