#!/usr/bin/env python3
"""Ask the server of this container how it is, wherever OMNIGRAPH_BIND lets it listen."""

import os
import sys
import urllib.error
import urllib.request

WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}  # noqa: S104


def main() -> int:
    """Return 0 if the server is up, else 1."""
    bind = os.environ.get("OMNIGRAPH_BIND", "0.0.0.0:8080")  # noqa: TID251 - stands alone
    host, _, port = bind.rpartition(":")
    address = f"http://{WILDCARDS.get(host, host)}:{port}/healthz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=4) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError, ValueError) as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
