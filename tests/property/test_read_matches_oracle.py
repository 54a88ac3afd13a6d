"""The engine returns what the oracle returns, in the same order, whatever is asked."""

from hypothesis import assume, given, note
from hypothesis import strategies as st

from omnigraph.errors import CompileError
from tests.support.answers import Question, listed
from tests.support.graphs import graphs
from tests.support.memory_images import MemoryImages
from tests.support.read_queries import read_queries


@given(graphs(), st.data())
def test_rows_and_their_order_are_those_of_the_oracle(graph, data):
    case = data.draw(read_queries(graph))
    try:
        question = Question(graph.catalog, case.text, case.params)
    except CompileError:
        assume(False)
    note(case.text)
    images = MemoryImages(graph.catalog, graph.tables())
    assert question.answered(images) == listed(question.asked(graph.rows))
