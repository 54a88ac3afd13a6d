import shutil

import pytest

import omnigraph
from tests.server.conftest import template as template
from tests.support.fast import FAST
from tests.support.servers import server_thread


@pytest.fixture
def place(template, tmp_path):
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "people.omni"


@pytest.fixture
def address(place):
    with server_thread(str(place)) as found:
        yield found


@pytest.fixture(params=["local", "remote"])
def graph(request, place):
    """The same graph, opened here or asked of a server: no test may see a difference."""
    if request.param == "local":
        with omnigraph.connect(place, options=FAST) as opened:
            yield opened
        return
    address = request.getfixturevalue("address")
    with omnigraph.connect(address) as opened:
        yield opened
