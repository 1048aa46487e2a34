"""What the adapter makes of the errors of aiormq."""

from __future__ import annotations

import asyncio
import inspect
import struct

import pytest

pytest.importorskip("aiormq")

import aiormq  # noqa: E402
import pamqp.commands  # noqa: E402
import pamqp.frame  # noqa: E402
from aiormq.connection import FrameReceiver  # noqa: E402
from conftest import PATIENCE  # noqa: E402
from strikes.aio_pika import _ask, _connect, is_undecodable  # noqa: E402
from strikes.consuming import SessionLost  # noqa: E402


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def header(name: bytes, value: bytes) -> bytes:
    """The frame with the properties of a message, whose one header has the type and the bytes of value."""
    table = bytes([len(name)]) + name + value
    return frame(2, struct.pack(">HHQHI", 60, 0, 0, 1 << 13, len(table)) + table)


HEARTBEAT = frame(8, b"", 0)
DELIVER = pamqp.frame.marshal(pamqp.commands.Basic.Deliver("t", 1, False, "", "q"), 1)
GOOD = header(b"a", b"t\x01")


async def why_it_closed(received: bytes, lost: Exception | None) -> BaseException | None:
    """Have aiormq's connection read the bytes that came before the socket was lost.

    Return the error with which it closes.
    """
    reader = asyncio.StreamReader()
    reader.feed_data(received)
    if lost:
        reader.set_exception(lost)
    else:
        reader.feed_eof()
    c = aiormq.Connection("amqp://127.0.0.1")
    c._writer_task = c.create_task(asyncio.sleep(PATIENCE))
    timeout = [PATIENCE] if "receive_timeout" in inspect.signature(FrameReceiver).parameters else []  # until aiormq 6.7
    c._reader_task = c.create_task(c._Connection__reader(FrameReceiver(reader, *timeout)))
    c._reader_task.add_done_callback(c._on_reader_done)
    await asyncio.wait([c.closing], timeout=PATIENCE)
    return c.closing.exception()


@pytest.mark.parametrize(
    ("received", "lost", "undecodable"),
    [
        pytest.param(HEARTBEAT, None, False, id="cut between frames"),
        pytest.param(DELIVER + GOOD, None, False, id="cut within a message"),
        pytest.param(HEARTBEAT + DELIVER[:10], None, False, id="cut within a frame"),
        pytest.param(DELIVER[:3], None, False, id="cut within the head of a frame"),
        pytest.param(b"", ConnectionResetError(104, "Connection reset by peer"), False, id="reset"),
        pytest.param(
            b"", OSError(75, "Value too large"), False, id="an error of the socket that a time could raise, too"
        ),
        pytest.param(
            pamqp.frame.marshal(pamqp.commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0), 0), None, False,
            id="the broker stops",
        ),
        pytest.param(DELIVER + header(b"t", b"T\x7f" + b"\xff" * 7), None, True, id="a time after the year 9999"),
        pytest.param(DELIVER + header(b"t", b"T" + b"\xff" * 8), None, True, id="a time before 1970"),
        pytest.param(DELIVER + header(b"\xff", b"t\x01"), None, True, id="a name that is not UTF-8"),
        pytest.param(DELIVER + header(b"t", b"T" + b"\0" * 3), None, True, id="a header that ends too soon"),
        pytest.param(DELIVER + header(b"t", b"?"), None, True, id="a header of a type that does not exist"),
        pytest.param(HEARTBEAT + DELIVER[:-1] + b"x", None, True, id="a frame without its end"),
    ],
)
def test_a_cut_is_told_from_a_message_that_cannot_be_decoded(received, lost, undecodable):
    error = asyncio.run(why_it_closed(received, lost))
    assert is_undecodable(error) is undecodable, repr(error)


def test_a_cut_while_the_broker_is_asked_ends_the_session_only():
    async def cut() -> None:
        raise await why_it_closed(HEARTBEAT, None)

    with pytest.raises(SessionLost):
        asyncio.run(_ask(cut()))


def test_a_handshake_that_is_given_up_leaves_no_socket():
    """A broker that is frozen takes connections, and says nothing."""

    async def scenario() -> bytes:
        received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def frozen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                received.set_result(await reader.read())  # until the client closes its socket
            except ConnectionError:
                received.set_result(b"a reset")
            writer.close()

        server = await asyncio.start_server(frozen, "127.0.0.1")
        with pytest.raises(SessionLost, match="the broker did not answer within 0.5 s"):
            await _connect(f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}", 0.5)
        got = await asyncio.wait_for(received, PATIENCE)
        server.close()
        return got

    assert asyncio.run(scenario())
