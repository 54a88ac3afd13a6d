"""Who is let in, who waits and who is told to come again; what becomes of work nobody waits for."""

import asyncio
import threading

import httpx2
import pytest

from omnigraph.server.admission import Slots, WriteAdmission, WriteCaps
from omnigraph.server.app import App
from omnigraph.server.boot import served_by
from omnigraph.server.execution import Capacity, Execution
from omnigraph.server.http import Exchange, Flow, GoneError
from omnigraph.server.options import ServeOptions
from omnigraph.server.problems import ProblemError


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


async def until(holds):
    """Let others run until something holds."""
    while not holds():  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0)


def test_slots_are_given_in_the_order_of_asking():
    async def work():
        slots, order, first = Slots(1, 8, 60), [], asyncio.Event()

        async def one(number):
            async with slots.slot(None):
                order.append(number)
                if number == 0:
                    await first.wait()

        tasks = [asyncio.create_task(one(number)) for number in range(5)]
        await until(lambda: slots.waiting == 4)
        first.set()
        await asyncio.gather(*tasks)
        assert slots.waiting == 0
        return order

    assert run(work()) == [0, 1, 2, 3, 4]


def test_a_full_queue_and_a_long_wait_are_429_with_a_moment_to_come_again():
    async def work():
        slots, stop = Slots(1, 1, 0.05), asyncio.Event()

        async def hold():
            async with slots.slot(None):
                await stop.wait()

        holder = asyncio.create_task(hold())
        await asyncio.sleep(0)
        waiter = asyncio.create_task(hold())
        await until(lambda: slots.waiting)
        with pytest.raises(ProblemError) as full:
            async with slots.slot(None):
                pass
        with pytest.raises(ProblemError) as late:
            await waiter
        stop.set()
        await holder
        async with slots.slot(None):  # it is free again
            pass
        return full.value, late.value

    for found in run(work()):
        assert found.status == 429
        ((name, seconds),) = found.headers
        assert name == b"retry-after"
        assert int(seconds) >= 1


def test_one_actor_takes_half_at_most():
    async def work():
        slots, stop = Slots(2, 2, 60), asyncio.Event()

        async def hold(actor):
            async with slots.slot(actor):
                await stop.wait()

        tasks = [asyncio.create_task(hold("ann")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError, match="share"):
            async with slots.slot("ann"):
                pass
        other = asyncio.create_task(hold("bob"))
        await asyncio.sleep(0)
        assert slots.waiting == 1
        stop.set()
        await asyncio.gather(*tasks, other)

    run(work())


@pytest.mark.parametrize("when", ["waiting", "as it is handed over"])
def test_a_slot_is_not_lost_with_who_was_to_have_it(when):
    async def work():
        slots, stop = Slots(1, 8, 60), asyncio.Event()

        async def hold():
            async with slots.slot(None):
                await stop.wait()

        holder = asyncio.create_task(hold())
        await asyncio.sleep(0)
        waiter = asyncio.create_task(hold())
        await until(lambda: slots.waiting)
        if when == "waiting":
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
            stop.set()
            await holder
        else:
            stop.set()
            await holder  # hands the slot over; who waits has not run yet
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        async with slots.slot(None):
            return slots.waiting

    assert run(work()) == 0


def test_writes_are_capped_by_actor_number_and_bytes():
    admission = WriteAdmission(WriteCaps(per_actor=2, per_process=3, bytes_per_actor=100))
    with admission.entered("ann", 60), admission.entered("ann", 40):
        with pytest.raises(ProblemError, match="in-flight count cap 2 exceeded"):
            admission.entered("ann", 0).__enter__()
        with admission.entered(None, 0), pytest.raises(ProblemError, match="has 3 writes"):
            admission.entered("bob", 0).__enter__()
    with (
        admission.entered("ann", 60),
        pytest.raises(ProblemError, match="byte budget exceeded"),
    ):
        admission.entered("ann", 41).__enter__()
    assert admission.under_way == 0


def exchange(receive):
    return Exchange("POST", "/read", b"", {}, receive, "id")


def test_a_read_stops_when_its_client_leaves_and_its_slot_is_free():
    async def work():
        execution, began, left = Execution(Capacity(1)), threading.Event(), asyncio.Event()
        stopped = threading.Event()

        async def receive():
            await left.wait()
            return {"type": "http.disconnect"}

        def read(cancel):
            began.set()
            assert cancel.wait(60)
            stopped.set()

        task = asyncio.create_task(execution.read(exchange(receive), None, read))
        await asyncio.to_thread(began.wait)
        left.set()
        with pytest.raises(GoneError):
            await task
        assert stopped.is_set()
        found = await execution.read(exchange(asyncio.Event().wait), None, lambda _: 7)
        await execution.close()
        return found

    assert run(work()) == 7


def test_a_write_is_done_even_if_its_client_leaves():
    async def work():
        execution, began, go_on = Execution(Capacity(1)), threading.Event(), threading.Event()
        done = []

        def write():
            began.set()
            go_on.wait()
            done.append(1)

        task = asyncio.create_task(execution.write(None, 0, write))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert execution.writes.under_way == 1
        go_on.set()
        await execution.close()
        return done

    assert run(work()) == [1]


def test_an_answer_in_pieces_is_made_at_most_two_pieces_ahead_and_closed_when_nobody_wants_it():
    async def work():
        execution, left = Execution(Capacity(1)), asyncio.Event()
        made, closed, sent = [], threading.Event(), []

        def pieces():
            try:
                for number in range(1_000):
                    made.append(number)
                    yield b"x"
            finally:
                closed.set()

        async def receive():
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            if len(sent) == 5:
                left.set()
                await asyncio.sleep(0)

        with pytest.raises(GoneError):
            await execution.send_flow(exchange(receive), Flow(pieces(), b"text/plain"), send)
        await execution.close()
        assert closed.is_set()
        return len(made), len(sent)

    made, sent = run(work())
    assert made <= sent + 2


def test_what_is_wrong_from_the_beginning_is_an_error_and_not_half_an_answer():
    async def work():
        execution, sent = Execution(Capacity(1)), []

        def pieces():
            raise ValueError("at once")
            yield b""

        async def send(message):
            sent.append(message)

        flow = Flow(pieces(), b"text/plain")
        with pytest.raises(ValueError, match="at once"):
            await execution.send_flow(exchange(asyncio.Event().wait), flow, send)
        await execution.close()
        return sent

    assert run(work()) == []


def test_a_small_query_that_is_ready_takes_no_slot_and_no_thread(people):
    served = served_by(ServeOptions(uri=str(people / "people.omni")))
    app = App(None, served=served)
    asked = {"query_source": "query q() { match { $p: Person } return { $p.name } }"}

    async def work():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(3):  # once it is wanted again, it is kept
                first = await client.post("/read", json=asked)
            served.execution.reads = None  # whoever asks for a slot now fails
            again = await client.post("/read", json=asked)
            served.graph.mutate("insert Person { name: $n }", params={"n": "Dan"})
            failed = await client.post("/read", json=asked)
        await app._close()
        return first, again, failed

    first, again, failed = run(work())
    assert first.json() == again.json()
    assert failed.status_code == 500  # a new commit is first read in a slot
