"""OmniGraph: a typed property-graph database on Lance."""

__version__ = "0.1.0"
