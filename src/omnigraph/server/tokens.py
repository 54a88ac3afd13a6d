"""Who a request is from: tokens and the actors they stand for. The only room that sees a token.

A token is hashed when it is read and never kept. A presented one is looked up so that how long it
takes says nothing about the others: few are all compared, many are found by a hash that is keyed
with a secret of this process.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from omnigraph.config.environment import Environment, s3_options
from omnigraph.errors import BadRequestError, StorageError

AWS_SECRET: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"  # noqa: S105 - the name of a variable
ONE_TOKEN: Final = "OMNIGRAPH_SERVER_BEARER_TOKEN"  # noqa: S105 - as above
TOKENS_FILE: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
TOKENS_JSON: Final = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"

TokenSource = Literal["env-or-file", "aws-secrets-manager"]
DEFAULT_ACTOR: Final = "default"
_FEW: Final = 64
_NOBODY: Final = (b"\0" * 32, "")


@dataclass(frozen=True, slots=True)
class Credential:
    """An actor and the SHA-256 of the token that stands for them."""

    digest: bytes
    actor: str


class Keyring:
    """All tokens in force; immutable, so that a reload swaps one for another."""

    def __init__(self, pairs: Iterable[tuple[str, str]], source: TokenSource) -> None:
        """Hash tokens.

        Args:
            pairs: actors and their tokens.
            source: where they are from.

        Raises:
            BadRequestError: a name or a token is blank, or there twice.
        """
        self.source: TokenSource = source
        self._credentials = tuple(_credentials(pairs))
        self._key = secrets.token_bytes(32)
        self._index = (
            {self._keyed(one.digest): (one.digest, one.actor) for one in self._credentials}
            if len(self._credentials) > _FEW
            else None
        )

    @property
    def actors(self) -> tuple[str, ...]:
        """Everybody who has a token, sorted."""
        return tuple(one.actor for one in self._credentials)

    def __bool__(self) -> bool:
        return bool(self._credentials)

    def actor_of(self, token: bytes) -> str | None:
        """Return whose token it is, if it is anybody's."""
        digest = hashlib.sha256(token).digest()
        if self._index is not None:
            known, actor = self._index.get(self._keyed(digest), _NOBODY)
            return actor if hmac.compare_digest(known, digest) and actor else None
        found = None
        for one in self._credentials:  # every one of them, whoever it was
            if hmac.compare_digest(one.digest, digest):
                found = one.actor
        return found

    def _keyed(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._key, digest_size=32).digest()


def _credentials(pairs: Iterable[tuple[str, str]]) -> Iterable[Credential]:
    actors: set[str] = set()
    digests: set[bytes] = set()
    found: list[Credential] = []
    for given_actor, given_token in pairs:
        actor, token = given_actor.strip(), given_token.strip()
        if not actor:
            raise BadRequestError("bearer token actor names must not be blank")
        if not token:
            raise BadRequestError(f"bearer token for actor '{actor}' must not be blank")
        digest = hashlib.sha256(token.encode()).digest()
        if actor in actors:
            raise BadRequestError(f"duplicate bearer token actor '{actor}'")
        if digest in digests:
            raise BadRequestError("duplicate bearer token value configured")
        actors.add(actor)
        digests.add(digest)
        found.append(Credential(digest, actor))
    return sorted(found, key=lambda one: one.actor)


def load_keyring(environment: Environment) -> Keyring:
    """Return the tokens that the environment names, from wherever it says they are.

    Raises:
        BadRequestError: they are not an object of names and tokens, or the AWS extra is missing.
        StorageError: a file or a secret cannot be read.
    """
    secret = environment.find(AWS_SECRET)
    if secret is not None:
        return Keyring(
            _pairs(_aws_secret(secret, environment), f"secret '{secret}'"), "aws-secrets-manager"
        )
    pairs: list[tuple[str, str]] = []
    one = environment.find(ONE_TOKEN)
    if one is not None:
        pairs.append((DEFAULT_ACTOR, one))
    file, text = environment.find(TOKENS_FILE), environment.find(TOKENS_JSON)
    if file is not None:
        pairs += _pairs(_read(Path(file)), f"token file '{file}'")
    elif text is not None:
        pairs += _pairs(text, TOKENS_JSON)
    return Keyring(pairs, "env-or-file")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise StorageError(f"token file '{path}' cannot be read: {why}") from error


def _pairs(text: str, what: str) -> list[tuple[str, str]]:
    """Return actors and tokens of a JSON object; nothing of its content is in a message."""
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError:
        raise BadRequestError(f"{what} is not valid JSON") from None
    if not isinstance(found, _Pairs):
        raise BadRequestError(f"{what} is not a JSON object", hint='{"actor": "token"}')
    for actor, token in found:
        if not isinstance(token, str):
            raise BadRequestError(f"{what}: the token of '{actor}' is not text")
    return list(found)


class _Pairs(list[tuple[str, Any]]):
    """The pairs of a JSON object as they are written: a name given twice must be seen."""


def _aws_secret(name: str, environment: Environment) -> str:
    try:
        import boto3  # an extra: only who keeps tokens there needs it
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise BadRequestError(
            f"{AWS_SECRET} is set, but the `aws` extra is not installed",
            hint="pip install 'omnigraph[aws]'",
        ) from None
    store = s3_options(environment)  # the same names, those of the dotenv file included
    try:
        client = boto3.client(
            "secretsmanager",
            region_name=store.region,
            aws_access_key_id=store.access_key_id,
            aws_secret_access_key=store.secret_access_key,
            aws_session_token=store.session_token,
            endpoint_url=environment.find("AWS_ENDPOINT_URL_SECRETS_MANAGER"),
        )
        found: Mapping[str, Any] = client.get_secret_value(SecretId=name)
    except (BotoCoreError, ClientError) as error:
        raise StorageError(
            f"secret '{name}' cannot be read: {type(error).__name__}",
            hint="it needs secretsmanager:GetSecretValue, a region and credentials",
        ) from error
    text = found.get("SecretString")
    if not isinstance(text, str):
        raise BadRequestError(f"secret '{name}' has no SecretString")
    return text
