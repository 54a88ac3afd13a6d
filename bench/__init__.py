"""Measurements: `python -m bench [name …]`. Ratios come from one run; nothing is asserted."""
