"""Pages over connections that are kept, and what becomes of those that were closed."""

import socket
import threading

import pytest

from control.telemetry.pages import Pages, Unanswered

HANG_SECONDS = 30


class Server:
    """Gives each connection its answers in turn, then closes it."""

    def __init__(self, *connections):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.accepted, self.asked = 0, []
        self._thread = threading.Thread(target=self._serve, args=(connections,), daemon=True)
        self._thread.start()

    def _serve(self, connections):
        for answers in connections:
            made, _ = self._listener.accept()
            self.accepted += 1
            made.settimeout(HANG_SECONDS)
            with made:
                for answer in answers:
                    self.asked.append(made.recv(4096).decode())
                    made.sendall(answer)

    def end(self):
        self._listener.close()
        self._thread.join(HANG_SECONDS)


def answer(body=b"hi", status=200):
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@pytest.fixture
def pages():
    made = Pages(HANG_SECONDS)
    yield made
    made.close()


def test_a_connection_is_kept_and_made_anew_when_it_was_closed(pages):
    server = Server([answer(b"1"), answer(b"2", 503)], [answer(b"3")])
    found = [pages.get(server.host, "/x", {"Authorization": "Bearer k"}, 10) for _ in range(3)]
    assert [(page.status, page.body) for page in found] == [(200, b"1"), (503, b"2"), (200, b"3")]
    assert server.accepted == 2
    assert all("Authorization: Bearer k" in text for text in server.asked)
    server.end()


def test_a_page_that_is_too_large_is_cut_and_its_connection_not_used_again(pages):
    server = Server([answer(b"x" * 50)], [answer(b"small")])
    assert len(pages.get(server.host, "/x", {}, 10).body) == 11
    assert pages.get(server.host, "/x", {}, 10).body == b"small"
    assert server.accepted == 2
    server.end()


def test_who_is_away_breaks_off_or_talks_nonsense_is_named(pages):
    server = Server([b"no HTTP at all\r\n"])
    with pytest.raises(Unanswered, match="BadStatusLine"):
        pages.get(server.host, "/x", {}, 10)
    server.end()
    with pytest.raises(Unanswered, match="ConnectionRefusedError"):
        pages.get(server.host, "/x", {}, 10)


def test_who_is_silent_is_waited_for_no_longer_than_said():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        quick = Pages(0.05)
        with pytest.raises(Unanswered, match="TimeoutError"):
            quick.get(f"127.0.0.1:{listener.getsockname()[1]}", "/x", {}, 10)
        quick.close()


def test_a_page_may_come_in_chunks_or_end_with_its_connection(pages):
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nho"
    server = Server([chunked, closing], [b"HTTP/1.1 200 OK\r\n\r\nha"], [answer()[:-1]])
    assert [pages.get(server.host, "/x", {}, 10).body for _ in range(3)] == [b"hi", b"ho", b"ha"]
    assert server.accepted == 2
    with pytest.raises(Unanswered, match="RemoteDisconnected"):
        pages.get(server.host, "/x", {}, 10)
    server.end()
