"""What was made before is kept within bounds, and the same for everybody."""

import threading

from omnigraph.base.recent import Recent


def test_the_least_recently_used_goes_first():
    kept = Recent(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.find("a") == 1
    kept.keep("c", 3)
    assert [kept.find(key) for key in "abc"] == [1, None, 3]
    assert len(kept) == 2


def test_who_comes_second_is_given_what_the_first_kept():
    kept = Recent(2)
    assert kept.keep("a", 1) == 1
    assert kept.keep("a", 2) == 1
    kept.clear()
    assert kept.find("a") is None
    assert kept.keep("a", 2) == 2


def test_threads_find_one_value_per_key():
    kept, seen = Recent(8), []
    start = threading.Barrier(4)

    def work():
        start.wait(60)
        for number in range(500):
            key = number % 16
            found = kept.find(key) or kept.keep(key, object())
            seen.append(found is not None)
            assert len(kept) <= 8

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert len(seen) == 2_000
