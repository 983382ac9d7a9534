"""What a cloud says of a host that it takes back, in the words of several."""

from datetime import UTC, datetime

import pytest

from control.fleet import node as nodes
from control.fleet.nodes import facts, notices
from control.fleet.nodes.notice import Leaves, read
from control.models import AuditEntry, Node
from tests.servers_http import answering

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
SOON = datetime(2026, 11, 1, 12, 2, tzinfo=UTC)
LATER = "Sun, 01 Nov 2026 12:05:00 GMT"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FALSE", None),
        ("false\n", None),
        ("[]", None),
        ("NONE", None),
        ("", Leaves(None)),
        ("TRUE", Leaves(None)),
        ("2026-11-01T12:02:00Z", Leaves(SOON)),
        ("2026-11-01T12:02:00", Leaves(SOON)),
        ('{"action": "terminate", "time": "2026-11-01T12:02:00Z"}', Leaves(SOON)),
        ('{"action": "rebalance", "time": "2026-11-01T12:02:00Z"}', None),
        ('{"DocumentIncarnation": 1, "Events": []}', None),
        (
            '{"Events": [{"EventType": "Reboot", "NotBefore": ""}, '
            '{"EventType": "Preempt", "NotBefore": "Sun, 01 Nov 2026 12:02:00 GMT"}, '
            f'{{"EventType": "Terminate", "NotBefore": "{LATER}"}}]}}',
            Leaves(SOON),
        ),
        ('{"Events": [{"EventType": "Preempt", "NotBefore": ""}]}', Leaves(None)),
        ('{"Events": ["what", 3]}', None),
        ('{"Events": [{"EventType": "Preempt", "Resources": ["n2", "N1"]}]}', Leaves(None)),
        ('{"Events": [{"EventType": "Preempt", "Resources": ["n2"]}]}', None),
    ],
)
def test_a_notice_is_read(text, said):
    assert read(text, "n1") == said


@pytest.fixture
def node(db, settings, tmp_path):
    settings.WEIR_HOME = tmp_path
    settings.WEIR_LEAVING_SECONDS = 90
    return nodes.join("n1")


def hear():
    return notices.hear("n1", by="node n1", at=AT)


def test_a_file_says_when_the_host_goes(node, settings, tmp_path):
    settings.WEIR_LEAVING_NOTICE = str(tmp_path / "notice")
    assert not hear()
    (tmp_path / "notice").write_text("2026-11-01T12:02:00Z")
    assert hear()
    assert hear()
    assert facts.node("n1").leaving_by == SOON
    [entry] = AuditEntry.objects.all()
    assert (entry.by, entry.action) == ("node n1", "node leaves")


def test_a_file_without_an_instant_gives_the_usual_time_once(node, settings, tmp_path):
    settings.WEIR_LEAVING_NOTICE = str(tmp_path / "notice")
    (tmp_path / "notice").touch()
    hear()
    first = facts.node("n1").leaving_by
    assert (first - AT).total_seconds() == 90
    notices.hear("n1", by="node n1", at=SOON)
    assert facts.node("n1").leaving_by == first


def test_a_url_is_asked_with_its_header(node, settings):
    with answering([(404, ""), (200, "FALSE"), (200, "TRUE")]) as server:
        settings.WEIR_LEAVING_NOTICE = server.url
        settings.WEIR_LEAVING_HEADER = "Metadata-Flavor: Google"
        assert [hear(), hear(), hear()] == [False, False, True]
        assert server.headers[-1]["Metadata-Flavor"] == "Google"
    assert facts.node("n1").standing == "drained"
    assert not hear()  # nobody answers


def test_a_removed_node_hears_without_harm(node, settings, tmp_path):
    settings.WEIR_LEAVING_NOTICE = str(tmp_path / "notice")
    (tmp_path / "notice").touch()
    Node.objects.update(state="removed")
    assert hear()
