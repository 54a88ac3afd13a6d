"""Reading statements: from a person with an editor, or from a pipe line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from omnigraph.cli.output import complain, complain_unexpected, warn
from omnigraph.cli.shell.complete import complete
from omnigraph.cli.shell.session import COMMANDS, Session
from omnigraph.cli.shell.statement import is_complete
from omnigraph.errors import OmniGraphError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent


def run_piped(session: Session, stream: TextIO) -> None:
    """Run the statements of a stream; the first that fails ends the run.

    Raises:
        OmniGraphError: what that statement did wrong.
    """
    text = ""
    for line in stream:
        text += line
        if is_complete(text):
            if text.strip():
                session.run(text)
            text = ""
            if session.done:
                return
    if text.strip():
        session.run(text)


def run_interactive(session: Session, name: str, history: Path) -> None:
    """Read and run statements until the person leaves; mistakes are shown and forgiven."""
    prompt = _prompt(session, history)
    warn("\\help lists the commands, Ctrl-D leaves")
    while not session.done:
        try:
            text = prompt.prompt(f"{name}:{session.branch}> ")
        except KeyboardInterrupt:
            continue  # the line is dropped, as in every shell
        except EOFError:
            return
        if text.strip():
            forgiving(session.run, text)


def forgiving(run: Callable[[str], None], text: str) -> None:
    """Run a statement; show what went wrong instead of ending the shell."""
    try:
        run(text)
    except OmniGraphError as error:
        complain(error)
    except KeyboardInterrupt:
        warn("interrupted")
    except Exception as error:  # noqa: BLE001 - a defect must not cost what was typed so far
        complain_unexpected(error)


def _prompt(session: Session, history: Path) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings

    class SchemaCompleter(Completer):
        def get_completions(
            self,
            document: Document,
            complete_event: CompleteEvent,  # noqa: ARG002 - their name
        ) -> Iterable[Completion]:
            graph, before = session.graph, document.text_before_cursor
            # Branches come and go, so they are asked for, but only where one is wanted.
            branches = graph.branches.list() if before.lstrip().startswith("\\branch") else ()
            for one in complete(before, graph.catalog, COMMANDS, branches):
                yield Completion(one.text, -one.typed, display_meta=one.kind)

    keys = KeyBindings()

    @keys.add("enter")
    def _accept_or_break(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text + "\n"):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    kept: History
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(mode=0o600)
        kept = FileHistory(str(history))
    except OSError as error:
        warn(f"what you type is not remembered: {history}: {error.strerror}")
        kept = InMemoryHistory()
    return PromptSession(
        history=kept,
        completer=SchemaCompleter(),
        complete_while_typing=False,
        multiline=True,
        key_bindings=keys,
        prompt_continuation=lambda width, _number, _wrap: "." * (width - 1) + " ",
    )


def is_terminal() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()
