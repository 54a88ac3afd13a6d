"""What a power cut leaves of a directory: only what was forced to the disk is sure to survive.

A child records every fsync it makes, with what the file or directory held at that moment.
Afterwards `cut` rebuilds the directory as the disk might have kept it. Files are known by
inode and time of change, so renames and hard links carry their synced content along.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Mode = Literal["only synced", "unsynced empty", "unsynced halved"]
MODES: tuple[Mode, ...] = ("only synced", "unsynced empty", "unsynced halved")
_LOCKS = "__locks"  # written in place, and meaningless to the next process


@dataclass(slots=True)
class Disk:
    """Contents by file identity, and entries by directory, that a power cut cannot take."""

    root: Path
    contents: dict[str, bytes] = field(default_factory=dict)
    listings: dict[str, dict[str, str]] = field(default_factory=dict)

    def note_tree(self) -> Disk:
        """Take everything that is there now as safe."""
        for folder in [self.root, *(p for p in self.root.rglob("*") if p.is_dir())]:
            if self.root.exists():
                self.listings[str(folder)] = _entries(folder)
        for file in self.root.rglob("*"):
            if file.is_file():
                self.contents[_identity(file.stat())] = file.read_bytes()
        return self

    def replay(self, log: Path) -> Disk:
        """Add what a child recorded before it died."""
        for line in log.read_text().splitlines() if log.exists() else []:
            event = json.loads(line)
            if "entries" in event:
                self.listings[event["path"]] = event["entries"]
            else:
                self.contents[event["identity"]] = bytes.fromhex(event["content"])
        return self

    def unsynced(self) -> list[Path]:
        """Return the files that exist now and whose content is not safe."""
        return sorted(
            file
            for file in self.root.rglob("*")
            if file.is_file()
            and _LOCKS not in file.parts
            and _identity(file.stat()) not in self.contents
        )

    def cut(self, mode: Mode) -> None:
        """Turn the directory into what the disk kept."""
        if mode == "only synced":
            rebuilt = self.root.with_name("rebuilt")
            self._rebuild(self.root, rebuilt)
            shutil.rmtree(self.root, ignore_errors=True)
            rebuilt.rename(self.root)
            return
        for file in self.unsynced():
            content = file.read_bytes()
            file.write_bytes(b"" if mode == "unsynced empty" else content[: len(content) // 2])

    def _rebuild(self, folder: Path, target: Path) -> None:
        target.mkdir(parents=True)
        for name, identity in self.listings.get(str(folder), {}).items():
            if identity == "folder":
                self._rebuild(folder / name, target / name)
            elif name != _LOCKS:
                (target / name).write_bytes(self.contents.get(identity, b""))


def record_syncs(log: str) -> None:
    """Make this process write down every fsync instead of doing it."""
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def fsync(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        facts = os.fstat(descriptor)
        event: dict[str, Any] = {"path": path}
        if stat.S_ISDIR(facts.st_mode):
            event["entries"] = _entries(Path(path))
        else:
            event["identity"] = _identity(facts)
            event["content"] = Path(path).read_bytes().hex()
        os.write(stream, json.dumps(event).encode() + b"\n")

    os.fsync = fsync  # type: ignore[assignment]  # a recorder in place of the system call


def _entries(folder: Path) -> dict[str, str]:
    return {
        entry.name: "folder" if entry.is_dir() else _identity(entry.stat())
        for entry in os.scandir(folder)
    }


def _identity(facts: os.stat_result) -> str:
    return f"{facts.st_ino}-{facts.st_mtime_ns}"
