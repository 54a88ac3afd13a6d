"""From the command line into the page."""

import shutil
import stat
import time

from omnigraph.cli.app import run as run_command
from tests.support.servers import PATIENCE_S, server_process


def test_serve_opens_the_page_once_the_server_answers(template, tmp_path):
    shutil.copytree(template, tmp_path / "company.omni")
    told = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    with server_process(
        tmp_path, "company.omni", "--bind", "127.0.0.1:0", "--open", BROWSER=f"{browser} %s"
    ) as server:
        address = server.hear_address()
        deadline = time.monotonic() + PATIENCE_S
        while not told.exists():
            assert time.monotonic() < deadline, "no browser was opened"
            time.sleep(0.01)
        assert told.read_text().strip() == f"{address}/ui/"


def test_there_is_nothing_to_open_without_the_page(template, capsys):
    assert run_command(["serve", str(template), "--open", "--no-page"]) == 1
    assert "nothing to open" in capsys.readouterr().err
