"""The entry point: runs the command tree, turns errors and signals into exit codes.

Imports nothing by itself: an interrupt while the commands are loaded is one like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

DEBUG = "--debug"
EXIT_OK, EXIT_INTERRUPTED = 0, 130


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code: 0, 1 (failed), 2 (usage) or 130 (interrupted)."""
    words = list(arguments)
    ends = words.index("--") if "--" in words else len(words)
    debug = DEBUG in words[:ends]
    if debug:  # wherever it stands, it is meant for this function
        words = [word for at, word in enumerate(words) if word != DEBUG or at > ends]
    as_json = "--json" in words[:ends]
    import typer

    from omnigraph.cli import output
    from omnigraph.cli.tree import app
    from omnigraph.errors import OmniGraphError

    try:
        return int(app(words, standalone_mode=False) or EXIT_OK)
    except SystemExit as stop:  # a completion script, or a reader that went away
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    except typer.TyperException as error:
        output.complain_usage(error, as_json=as_json)
        return output.EXIT_USAGE
    except OmniGraphError as error:
        if debug:
            raise
        output.complain(error, as_json=as_json)
        return output.exit_code(error)
    except Exception as error:  # the last line of defence of a command
        if debug:
            raise
        output.complain_unexpected(error, as_json=as_json)
        return output.EXIT_FAILURE


def serve() -> None:
    """Run `omnigraph serve` under its own name, `omnigraph-server`."""
    sys.argv[1:1] = ["serve"]
    main()


def local() -> None:
    """Run `omnigraph local` under its own name; without a word it starts."""
    sys.argv[1:1] = ["local"] if sys.argv[1:] else ["local", "start"]
    main()


def main() -> None:
    """Run the command line of this process."""
    try:
        from omnigraph.cli.light import this_process_is_a_command

        this_process_is_a_command()
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:  # before a command could begin
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) went away: nothing is wrong, and nothing can be told.
        sys.stderr.close()
        code = EXIT_OK
    if code == EXIT_INTERRUPTED:
        sys.stderr.write("interrupted\n")
    sys.exit(code)
