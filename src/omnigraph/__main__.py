"""`python -m omnigraph` is the `omnigraph` command."""

from omnigraph.cli.app import main

if __name__ == "__main__":
    main()
