"""The wheel and the sdist: complete, of one version, and enough for a first session."""

import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from omnigraph import __version__
from tests.support import clean_session

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(dist):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        every = opened.namelist()
        packed = {name for name in every if ".dist-info/" not in name}
        metadata = next(name for name in opened.namelist() if name.endswith("/METADATA"))
        told = opened.read(metadata).decode()
        (entries,) = [name for name in opened.namelist() if name.endswith("/entry_points.txt")]
        commands = opened.read(entries).decode()
    listed = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    known = {name.removeprefix("src/") for name in listed.stdout.splitlines()}
    assert packed - known == set()
    assert {name for name in known - packed if (SOURCE / name).exists()} == set()
    assert "omnigraph/py.typed" in packed
    assert f"Version: {__version__}" in told
    assert "Requires-Python: >=3.11" in told
    assert "License-Expression: MIT AND BSD-3-Clause AND ISC" in told
    assert any(name.endswith("licenses/src/omnigraph/web/vendor/THIRD_PARTY.txt") for name in every)
    for name in ("omnigraph =", "omnigraph-server =", "omnigraph-local ="):
        assert name in commands


def test_the_sdist_has_what_the_wheel_is_built_from(dist):
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "src/omnigraph/__init__.py"):
        assert name in names
    assert not any(name.startswith(("tests/", "bench/", ".github/")) for name in names)


@pytest.mark.slow
def test_the_wheel_alone_is_enough_for_a_first_session(dist):
    assert clean_session.main(dist, ()) == 0


def test_a_release_names_one_version(tmp_path):
    faults = runpy.run_path(str(ROOT / "deploy/release_check.py"))["faults"]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndynamic = ["version"]\n')
    (tmp_path / "src/omnigraph/base").mkdir(parents=True)
    (tmp_path / "src/omnigraph/base/version.py").write_text('VERSION = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.3] - 2026-01-02\n")
    assert faults("v1.2.3", tmp_path) == []
    assert len(faults("v1.2.4", tmp_path)) == 1
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    assert len(faults("v1.2.4", tmp_path)) == 2


def test_what_runs_elsewhere_calls_what_runs_here():
    import yaml

    flows = {
        path.name: yaml.safe_load(path.read_text()) for path in ROOT.glob(".github/workflows/*")
    }
    steps = [
        step.get("run", "")
        for flow in flows.values()
        for job in flow["jobs"].values()
        for step in job["steps"]
    ]
    assert "bash .ci/run" in steps
    assert "make package" in steps
    pythons = flows["ci.yml"]["jobs"]["gate"]["strategy"]["matrix"]["python"]
    text = (ROOT / "pyproject.toml").read_text()
    assert all(f"Python :: {one}" in text for one in pythons)
