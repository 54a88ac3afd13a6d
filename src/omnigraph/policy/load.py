"""From a file to a policy in force; the only way, for the server and for every tool."""

from __future__ import annotations

from pathlib import Path

from omnigraph.compiler.source import Source
from omnigraph.compiler.syntax import decode
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.policy.cedar import require_agreement
from omnigraph.policy.decide import Judge
from omnigraph.policy.read import read_policy


def load_policy(path: Path, repo: str) -> Judge:
    """Return the policy of a file, once Cedar has agreed to all it says.

    Args:
        path: the policy file.
        repo: what the graph is called in Cedar's words.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: it says something that cannot be.
        MissingExtraError: Cedar is not installed.
        CedarError: Cedar judges otherwise.
    """
    policy = read_policy(read_file(path, "policy"))
    judge = Judge(policy)
    require_agreement(policy, judge, repo)
    return judge


def read_file(path: Path, what: str) -> Source:
    """Return the text of a file.

    Raises:
        NotFoundError: there is none.
        BadRequestError: it cannot be read.
    """
    try:
        return decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise NotFoundError(f"{what} file '{path}' not found") from None
    except OSError as error:
        why = error.strerror or error
        raise BadRequestError(f"{what} file '{path}' cannot be read: {why}") from None
