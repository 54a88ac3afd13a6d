"""Settings that only work together."""

from omnigraph.storage.options import DEFAULTS


def test_whoever_waits_for_a_dead_lease_is_more_patient_than_the_lease():
    """Otherwise the first writer after a crash on an object store would time out."""
    assert DEFAULTS.lock_timeout_s >= 2 * DEFAULTS.lease_ttl_s
