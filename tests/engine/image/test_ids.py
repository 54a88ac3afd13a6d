import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.image import ids as module
from omnigraph.engine.image.ids import build_ids

names = st.text(max_size=8)


@given(st.lists(names, unique=True, max_size=200), st.lists(names, max_size=100))
def test_ids_are_found_at_their_position_and_unknown_ones_are_not(known, wanted):
    index = build_ids(pa.array(known, pa.string()))
    asked = [*known, *wanted, None]
    found = index.find_many(pa.array(asked, pa.string()))
    assert found.tolist() == [known.index(one) if one in known else -1 for one in asked]
    assert [index.find(one) for one in known] == list(range(len(known)))


def test_equal_hashes_are_told_apart_by_the_id(monkeypatch):
    monkeypatch.setattr(module, "hash", lambda _: 7, raising=False)
    index = build_ids(pa.array(["a", "b", "c"]))
    assert [index.find(one) for one in "abcd"] == [0, 1, 2, -1]
