"""Graphs to play with: `omnigraph init --template NAME` writes their files and loads their rows.

- `copy`: the files of a template into a folder, where nothing is replaced.
"""
