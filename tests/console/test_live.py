"""Charts and parts over a WebSocket: the last minutes at once, then what changes."""

import json

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.utils import timezone

from console import charts
from console.live.charts import CLOSE_LATER
from console.live.parts import CLOSE_UNKNOWN
from control.models import Deployment
from control.telemetry.messages import DeviceSample
from control.telemetry.publish import Publisher
from control.telemetry.store import Store
from tests.console.sockets import Socket, connected

UUID = "cpu-test"


@pytest.fixture
def cookie(transactional_db, console):
    return f"{settings.SESSION_COOKIE_NAME}={console.cookies[settings.SESSION_COOKIE_NAME].value}"


def sample(ratio: float, *, seconds_ago: float = 0) -> DeviceSample:
    at = timezone.now().timestamp() - seconds_ago
    return DeviceSample(at, UUID, "n1/RAM", "cpu", 2**34, 2**33, ratio)


def utilisation(board: dict) -> dict:
    [chart] = [chart for chart in board["charts"] if chart["name"] == "utilisation"]
    return chart


@sync_to_async
def share(*samples: DeviceSample) -> None:
    Publisher().share(samples)


async def test_the_first_message_fills_the_charts_from_the_store(cookie):
    await sync_to_async(Store().put)([sample(0.5)])
    async with connected("/live/charts/", cookie) as page:
        board = await page.hear_json()
        assert (board["type"], board["seq"]) == ("board", 1)
        assert len(board["charts"]) == len(charts.CHARTS)
        chart = utilisation(board)
        assert chart["labels"] == ["n1/RAM"]
        assert 50.0 in chart["columns"][0]


async def test_a_sample_that_is_published_becomes_a_point(cookie):
    await sync_to_async(Store().put)([sample(0.1)])
    async with connected("/live/charts/", cookie) as page:
        board = await page.hear_json()
        await share(sample(0.75))
        point = await page.hear_json()
        assert (point["type"], point["seq"]) == ("point", board["seq"] + 1)
        assert point["values"]["utilisation"] == [75.0]


async def test_a_new_device_brings_a_new_board(cookie):
    async with connected("/live/charts/", cookie) as page:
        assert utilisation(await page.hear_json())["labels"] == []
        await share(sample(0.2))
        board = await page.hear_json()
        assert board["type"] == "board"
        assert utilisation(board)["labels"] == ["n1/RAM"]


async def test_a_page_that_missed_something_is_sent_the_board_again(cookie):
    async with connected("/live/charts/", cookie) as page:
        await page.hear_json()
        await page.say(type="again")
        assert (await page.hear_json())["type"] == "board"


async def test_a_part_is_sent_as_its_page_shows_it_and_again_when_it_changed(cookie, fleet):
    await sync_to_async(fleet)(1)
    async with connected("/live/part/deployments/", cookie) as page:
        first = await page.hear()
        assert 'id="part-deployments"' in first
        assert 'id="as-of"' in first
        assert "dep-1" in first
        await sync_to_async(Deployment.objects.filter(name="dep-1").update)(
            note="is told to wait", replicas_wanted=3
        )
        heard = [await page.hear()]
        while "is told to wait" not in heard[-1]:
            assert len(heard) < 10
            heard.append(await page.hear())


async def test_a_part_that_does_not_exist_is_refused(cookie):
    socket = Socket("/live/part/secrets/", cookie=cookie)
    assert await socket.connect() is None
    assert await socket.closed() == CLOSE_UNKNOWN


async def test_a_replica_that_is_no_number_is_said_to_be_gone(cookie):
    async with connected("/live/part/replica/abc/", cookie) as page:
        assert "It is gone" in await page.hear()


async def test_the_part_of_a_model_whose_name_has_a_dot_is_followed(cookie):
    async with connected("/live/part/model/llama-3.1-8b/", cookie) as page:
        assert 'id="as-of"' in await page.hear()


async def test_charts_close_for_later_when_the_channel_layer_is_away(cookie, monkeypatch):
    async def fail(*_):
        raise OSError("no Valkey")

    layer = "channels_redis.core.RedisChannelLayer.group_add"
    monkeypatch.setattr(layer, fail)  # not ours: the server that is away
    socket = Socket("/live/charts/", cookie=cookie)
    assert await socket.connect() is None
    assert await socket.closed() == CLOSE_LATER


async def test_the_playground_says_what_is_unclear(cookie):
    async with connected("/live/playground/", cookie) as page:
        await page.say(type="ask", route="", messages=[])
        assert await page.hear_json() == {
            "type": "error",
            "message": "Choose a route and write a message.",
        }


async def test_the_playground_says_that_the_gateway_is_away(cookie, settings):
    settings.WEIR_GATEWAY_URL = "http://127.0.0.1:9"
    async with connected("/live/playground/", cookie) as page:
        hello = [{"role": "user", "content": "hello"}]
        await page.say(type="ask", route="chat", messages=hello, temperature=1)
        heard = json.loads(await page.hear())
        assert heard["type"] == "error"
        assert "weir status" in heard["message"]
