"""What a power cut leaves of a directory: only what was forced to the disk is sure to survive.

A child records every fsync it makes, with what the file or directory held at that moment.
Afterwards `images` tells how the disk might have kept the directory. Files are known by
inode and time of change, so renames and hard links carry their synced content along.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Image = dict[str, bytes | None]
"""A directory tree by relative path; None is a folder."""
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

    def images(self, *, every_file: bool) -> dict[str, Image]:
        """Return what the disk may have kept, by what happened to it.

        With `every_file` each unsynced file is also torn alone.
        """
        now = {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
        }
        unsynced = [
            name
            for name, content in now.items()
            if content is not None
            and not name.startswith(_LOCKS)
            and _identity((self.root / name).stat()) not in self.contents
        ]
        sizes = {name: len(now[name] or b"") for name in unsynced}
        kept: Image = {}
        self._collect(self.root, kept)
        images = {
            "only what was synced": kept,
            "unsynced files empty": {**now, **dict.fromkeys(unsynced, b"")},
            "unsynced files zeroed": {**now, **{name: bytes(sizes[name]) for name in unsynced}},
        }
        if every_file:
            halves = {name: (now[name] or b"")[: sizes[name] // 2] for name in unsynced}
            images["unsynced files halved"] = {**now, **halves}
            images |= {f"{name} empty": {**now, name: b""} for name in unsynced}
            images |= {f"{name} almost empty": {**now, name: b"\0\0"} for name in unsynced}
        return images

    def become(self, image: Image) -> None:
        """Make the directory what the disk kept."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for name, content in image.items():
            path = self.root / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def _collect(self, folder: Path, image: Image) -> None:
        for name, identity in self.listings.get(str(folder), {}).items():
            path = folder / name
            if identity == "folder":
                image[str(path.relative_to(self.root))] = None
                self._collect(path, image)
            elif _LOCKS not in path.parts:
                image[str(path.relative_to(self.root))] = self.contents.get(identity, b"")


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
