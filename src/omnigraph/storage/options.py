"""Settings of the storage kernel, as plain values.

Nothing here reads the environment: whoever builds the options decides where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Durability = Literal["full", "os"]
MaintenanceMode = Literal["auto", "manual"]
FileChecks = Literal["never", "first_read"]

MINUTE_S = 60
DAY_S = 24 * 60 * MINUTE_S


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach an S3-compatible object store."""

    endpoint: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    allow_http: bool = False
    virtual_hosted_style: bool = False

    def as_lance(self) -> dict[str, str]:
        """Return the options in the words Lance understands."""
        named = {
            "endpoint": self.endpoint,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "session_token": self.session_token,
            "region": self.region,
            "allow_http": "true" if self.allow_http else None,
            "virtual_hosted_style_request": "true" if self.virtual_hosted_style else None,
        }
        return {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_lance(cls, told: Mapping[str, str]) -> S3Options:
        """Read the options back from the words of Lance."""
        return cls(
            endpoint=told.get("endpoint"),
            access_key_id=told.get("access_key_id"),
            secret_access_key=told.get("secret_access_key"),
            session_token=told.get("session_token"),
            region=told.get("region"),
            allow_http=told.get("allow_http") == "true",
            virtual_hosted_style=told.get("virtual_hosted_style_request") == "true",
        )


@dataclass(frozen=True, slots=True)
class Retention:
    """What cleanup must leave alone, whatever else it is asked to do."""

    floor_s: float = 15 * MINUTE_S
    """No file of a version superseded less than this long ago is removed."""
    newest_versions: int = 8
    """The newest versions of every table are kept."""
    manifest_versions: int = 64
    """The newest versions of the manifest are kept."""
    orphan_age_s: float = 7 * DAY_S
    """Staged files that no version names are collected after this long."""
    idempotency_s: float = 7 * DAY_S
    """An idempotency key is remembered until its branch has moved on by this long.

    By the times of the branch's commits, never by the clock of who asks.
    """
    idempotency_commits: int = 1024
    """The keys of this many newest commits are remembered, whatever clocks said of them."""
    keep_versions: int | None = None
    """Set this or `keep_s` to let upkeep remove old table versions by itself."""
    keep_s: float | None = None


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Everything a caller may decide about one open graph."""

    s3: S3Options = S3Options()
    durability: Durability = "full"
    check_files: FileChecks = "never"
    """Whether files are compared with their digests before a process reads them first."""
    maintenance: MaintenanceMode = "auto"
    maintenance_budget_s: float = 2.0
    """How long closing a store may spend on maintenance that is due."""
    compact_fragments: int = 4
    """A table with this many small fragments is due for compaction, at least 2."""
    max_rows_per_file: int = 100_000
    """Bounds what one row-id lookup must rebuild after a write."""
    lock_timeout_s: float = 30.0
    lease_ttl_s: float = 15.0
    """A lease on an object store is dead when it has not changed for this long.

    Well below `lock_timeout_s`, so that the first writer after a crash outlasts the dead one.
    """
    publish_attempts: int = 6
    retention: Retention = Retention()


DEFAULTS = StorageOptions()
