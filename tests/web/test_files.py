"""The files of the page: under one policy, under one size, made of pinned libraries."""

import gzip
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import httpx2
import pytest

from omnigraph.cli.shell.complete import KEYWORDS
from omnigraph.web.files import page_files
from tests.support.servers import server_thread

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src" / "omnigraph" / "web"
VENDOR = WEB / "vendor"
MOST_BYTES = 200_000
OWN = sorted((WEB / "app").rglob("*.js"))


@pytest.fixture
def ask(served):
    with httpx2.Client(base_url=served, timeout=60) as client:
        yield client.get


@pytest.mark.parametrize("name", sorted(page_files()))
def test_every_file_comes_under_the_policy(ask, name):
    found = ask(f"/ui/{name}")
    assert found.status_code == 200
    assert found.content == page_files()[name].body
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["x-frame-options"] == "DENY"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cross-origin-opener-policy"] == "same-origin"
    again = ask(f"/ui/{name}", headers={"if-none-match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "files.py",
        "__init__.py",
        "vendor/hashes.json",
        "../server/app.py",
        "..%2Fapp.py",
        "app",
        "x",
    ],
)
def test_nothing_else_is_served(ask, path):
    found = ask(f"/ui/{path}")
    assert found.status_code == 404
    assert found.json()["code"] == "not_found"


def test_the_bare_address_leads_browsers_to_the_page_and_programs_nowhere(ask):
    led = ask("/", headers={"accept": "text/html,*/*"})
    assert (led.status_code, led.headers["location"]) == (307, "ui/")
    assert ask("/ui").headers["location"] == "ui/"
    assert ask("/", headers={"accept": "*/*"}).status_code == 404
    assert ask("/graphs/company/ui/").status_code == 200
    assert "/ui/" not in json.dumps(ask("/openapi.full.json").json())


def test_a_server_without_the_page_has_none(template):
    with server_thread(str(template), page=False) as address:
        for path in ("/ui/", "/ui/app/main.js", "/"):
            found = httpx2.get(address + path, headers={"accept": "text/html"}, timeout=60)
            assert found.status_code == 404


def test_the_page_is_small_enough_to_be_there_at_once():
    sent = [one for name, one in page_files().items() if not name.endswith(".txt")]
    assert sum(len(one.packed or one.body) for one in sent) <= MOST_BYTES
    assert all(gzip.decompress(one.packed) == one.body for one in sent if one.packed)


def test_bundles_are_those_that_were_made_with_their_licences():
    hashes = json.loads((VENDOR / "hashes.json").read_text())
    found = {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in VENDOR.iterdir()
        if one.name != "hashes.json"
    }
    assert found == hashes
    lock = json.loads((ROOT / "vendor" / "package-lock.json").read_text())["packages"]
    text = (VENDOR / "THIRD_PARTY.txt").read_text()
    named = json.loads((ROOT / "vendor" / "package.json").read_text())["dependencies"]
    for name, version in named.items():
        assert lock[f"node_modules/{name}"]["version"] == version
        if name != "esbuild":
            assert f"{name} {version} (" in text
    assert "resolved" not in json.dumps(lock)


def test_the_same_pins_make_the_same_bytes(tmp_path):
    if shutil.which("node") is None or not (ROOT / "vendor" / "node_modules").is_dir():
        pytest.skip("there is no Node here, or `make vendor` was not run")
    build = ["node", str(ROOT / "vendor" / "build.mjs"), str(tmp_path)]
    subprocess.run(build, check=True, timeout=300)
    assert (tmp_path / "hashes.json").read_bytes() == (VENDOR / "hashes.json").read_bytes()


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_our_own_code_makes_no_markup_and_keeps_no_secrets(path):
    text = path.read_text()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "cookie",
    ):
        assert word not in text.replace("never in an address or a cookie", "")
    assert "localStorage" not in text or path.name == "main.js"


def test_the_colours_know_the_words_the_shell_knows():
    text = (WEB / "app" / "words.js").read_text()
    known = set(text.replace("'", " ").replace(",", " ").split())
    assert set(KEYWORDS) <= known
