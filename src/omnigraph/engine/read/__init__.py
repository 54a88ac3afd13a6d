"""Operators and the executor: IR and images to Arrow. So far `compare`: exact comparisons."""
