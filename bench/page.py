"""The page in a browser without a window and without a GPU: `python -m bench page`.

- rows: from the key that runs a query of 100,000 rows of six columns to the first row in sight, and
  frames a second while they are scrolled.
- picture: from the same key until 1,000 nodes rest, and frames a second while it is moved.
- size: what a browser is sent, packed, before the page stands.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import omnigraph
from bench import _data
from omnigraph.graph import GraphOptions
from omnigraph.storage.options import StorageOptions
from omnigraph.web.files import page_files

ROUNDS: Final = 3
ROWS: Final = """query q() {
  match { $p: Person }
  return {
    $p.key as key, $p.name as name, $p.age as age, $p.city as city, $p.id as id, $p.name as again
  }
}"""
PICTURE: Final = "query q() { match { $a: Person $a knows $b } return { $a.key, $b.key } }"
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
FRAMES: Final = """(move) => new Promise((done) => {
  const started = performance.now();
  let frames = 0;
  const step = () => {
    eval_move(move, frames);
    frames += 1;
    const took = performance.now() - started;
    if (took < 2000) requestAnimationFrame(step); else done(1000 * frames / took);
  };
  const eval_move = (kind, at) => {
    if (kind === 'rows') document.querySelector('.vt').scrollTop = at * 900;
    else document.querySelector('.picture canvas').dispatchEvent(
      new WheelEvent('wheel', { deltaY: at % 40 < 20 ? 30 : -30, clientX: 700, clientY: 600 }));
  };
  requestAnimationFrame(step);
})"""
START = "from omnigraph.cli.app import serve; serve()"
OPTIONS = GraphOptions(storage=StorageOptions(durability="os"))


def main() -> None:
    """Measure in the browser of this machine, if there is one."""
    size()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        say("in a browser", "there is no Chromium here")
        return
    with tempfile.TemporaryDirectory() as base:
        place = Path(base)
        make(place / "graph")
        with served(place) as address, windows(browser) as window:
            measure(window, address)


def say(title: str, text: str) -> None:
    """Print one row."""
    sys.stdout.write(f"{title:34} {text}\n")
    sys.stdout.flush()


def size() -> None:
    """Tell how much a browser is sent."""
    sent = {name: one for name, one in page_files().items() if not name.endswith(".txt")}
    packed = {name: len(one.packed or one.body) for name, one in sent.items()}
    own = sum(many for name, many in packed.items() if not name.startswith("vendor/"))
    whole = sum(packed.values())
    say("page, packed", f"{whole / 1e3:.0f} KB, of which ours {own / 1e3:.0f} (at most 200)")


def make(folder: Path) -> None:
    """Make a graph of 100,000 people."""
    data = _data.make(100_000, docs=0)
    with omnigraph.init(folder, _data.SCHEMA, options=OPTIONS) as graph:
        session = graph.store.begin()
        for key, table in data.tables.items():
            session.append(key, table)
        session.commit()


@contextlib.contextmanager
def served(place: Path) -> Iterator[str]:
    """Serve the graph from a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    bind = ["--bind", f"127.0.0.1:{port}", "--unauthenticated"]
    with (place / "notes").open("w") as notes:
        child = subprocess.Popen(
            [sys.executable, "-c", START, "graph", *bind],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=notes,
            text=True,
        )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(60)


@contextlib.contextmanager
def windows(browser: str) -> Iterator[Any]:
    """Give a window of a browser; Playwright is of those who develop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
        try:
            yield found.new_page(viewport={"width": 1400, "height": 900})
        finally:
            found.close()


def measure(window: Any, address: str) -> None:
    """Run both queries some times, and tell the middle one."""
    for title, text, view, ready, bound in (
        ("100,000 rows", ROWS, "table", ".vt-row", "first row < 1 s, 30 fps"),
        ("1,000 nodes", PICTURE, "graph", '.picture[data-settled="true"]', "at rest < 3 s"),
    ):
        took = []
        for at in range(ROUNDS + 1):
            window.goto("about:blank")
            words = urlencode({"q": text + " " * at, "view": view})
            window.goto(f"{address}/ui/#query?{words}")
            window.wait_for_selector(ready, timeout=120_000)
            button = window.get_by_role("button", name="Run")
            button.wait_for()
            window.evaluate("document.querySelector('.pane').replaceChildren()")
            started = time.perf_counter()
            button.click()
            window.wait_for_selector(ready, timeout=120_000)
            took.append(time.perf_counter() - started)
        kind = "rows" if view == "table" else "picture"
        rate = window.evaluate(FRAMES, kind)
        middle = sorted(took[1:])[ROUNDS // 2]
        say(title, f"{middle * 1e3:6.0f} ms, {rate:4.0f} frames a second  ({bound})")


if __name__ == "__main__":
    main()
