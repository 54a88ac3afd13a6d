"""A short load of many clients, so that what a soak of a server does is known to work."""

import pytest

from tests.soak.clients import soak_clients


@pytest.mark.slow
@pytest.mark.parametrize("faults", [False, True])
def test_many_clients_of_one_server_lose_nothing(faults):
    verdict = soak_clients(seed=3, seconds=12 if faults else 5, clients=12, faults=faults)
    assert verdict.wrong == []
    assert verdict.seen["lives of the server"] >= 1
