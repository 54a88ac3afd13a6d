import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.image.hashes import SEED_BYTES, TextHash
from omnigraph.engine.image.ids import build_ids

names = st.text(max_size=8)
SEED = TextHash(bytes(range(SEED_BYTES)))


@given(st.lists(names, unique=True, max_size=200), st.lists(names, max_size=100))
def test_ids_are_found_at_their_position_and_unknown_ones_are_not(known, wanted):
    index = build_ids(pa.array(known, pa.string()))
    asked = [*known, *wanted, None]
    found = index.find_many(pa.array(asked, pa.string()))
    assert found.tolist() == [known.index(one) if one in known else -1 for one in asked]
    assert [index.find(one) for one in known] == list(range(len(known)))


class _Same(TextHash):
    def of(self, text):
        return 7

    def of_all(self, texts):
        return super().of_all(texts) * 0 + 7


def test_equal_hashes_are_told_apart_by_the_id():
    known = [f"a{at}" for at in range(70)]
    index = build_ids(pa.array(known), _Same(b""))
    assert [index.find(one) for one in ("a0", "a69", "b")] == [0, 69, -1]
    asked = pa.array([*reversed(known), "b", None])
    assert index.find_many(asked).tolist() == [*reversed(range(70)), -1, -1]


@given(st.lists(st.text(max_size=300) | st.none(), max_size=30), st.integers(0, 5))
def test_a_column_is_hashed_like_its_texts_wherever_they_lie(texts, cut):
    column = pa.array(texts, pa.string())[cut:]
    for kind in (pa.string(), pa.large_string()):
        found = SEED.of_all(column.cast(kind)).tolist()
        for text, hashed in zip(texts[cut:], found, strict=True):
            assert text is None or hashed == SEED.of(text)


def test_texts_of_one_length_are_hashed_the_same_way():
    texts = [f"{at:026d}" for at in range(100)]
    assert SEED.of_all(pa.array(texts)).tolist() == [SEED.of(one) for one in texts]


HASH_OF_OMNIGRAPH = 2_647_321_179_146_593_945


def test_a_hash_is_the_same_in_every_process():
    assert SEED.of("omnigraph") == SEED.of_all(pa.array(["omnigraph"]))[0] == HASH_OF_OMNIGRAPH
    assert SEED.of("omnigraph\0") != SEED.of("omnigraph")
