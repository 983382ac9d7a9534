"""The last sample of everything, and fifteen minutes of them, in Valkey."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

import redis
from django.conf import settings

from control.telemetry.messages import Sample, from_dict, to_dict

LIVE_SECONDS = 5  # then the sample is gone: no sample is better than an old one
SERIES_SAMPLES_MAX = 900  # 15 minutes at one a second
SERIES_SECONDS = 1200
EXPIRY_EVERY_SECONDS = 60  # it need not be put off with each sample
SERIES_KEPT_MAX = 4096  # whose expiry is remembered
TIMEOUT_SECONDS = 1.0
SUBJECTS = "live:subjects"  # subject -> when it was last heard of
FIELD = "sample"


class Store:
    """All methods raise redis.RedisError when Valkey is away; callers go on without."""

    def __init__(self, client: redis.Redis | None = None):
        self._client = client or redis.Redis.from_url(
            settings.REDIS_LIVE_URL,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
        )
        self._expires: dict[str, float] = {}  # when it was put off last, by series

    def put(self, samples: Iterable[Sample]) -> None:
        """Write all of them in one round trip."""
        pipeline = self._client.pipeline(transaction=False)
        heard: dict[str, float] = {}
        for sample in samples:
            text = json.dumps(to_dict(sample), separators=(",", ":"))
            series = f"series:{sample.subject}"
            pipeline.set(f"live:{sample.subject}", text, ex=LIVE_SECONDS)
            pipeline.xadd(series, {FIELD: text}, maxlen=SERIES_SAMPLES_MAX, approximate=False)
            if self._expiry_is_due(series, sample.at):
                pipeline.expire(series, SERIES_SECONDS)
            heard[sample.subject] = sample.at
        if heard:
            pipeline.zadd(SUBJECTS, heard)
            pipeline.zremrangebyscore(SUBJECTS, "-inf", max(heard.values()) - SERIES_SECONDS)
            pipeline.execute()

    def _expiry_is_due(self, series: str, at: float) -> bool:
        last = self._expires.get(series)
        if last is not None and 0 <= at - last < EXPIRY_EVERY_SECONDS:
            return False
        if len(self._expires) >= SERIES_KEPT_MAX:
            self._expires.clear()
        self._expires[series] = at
        return True

    def latest(self, subjects: Sequence[str]) -> dict[str, Sample]:
        """Subject -> its sample, of those that were heard in the last 5 s; one MGET."""
        if not subjects:
            return {}
        texts = self._client.mget([f"live:{subject}" for subject in subjects])
        samples = (_sample(text) for text in texts)
        return {sample.subject: sample for sample in samples if sample}

    def subjects(self, kind: str = "") -> list[str]:
        """Everything heard of in the last 15 minutes, or only devices, replicas or gateways."""
        names = (name.decode() for name in self._client.zrange(SUBJECTS, 0, -1))
        return sorted(name for name in names if name.startswith(f"{kind}:" if kind else ""))

    def series(self, subjects: Sequence[str], since: float) -> dict[str, list[Sample]]:
        """Subject -> its samples from an instant (epoch seconds) on, oldest first."""
        found: dict[str, list[Sample]] = defaultdict(list)
        pipeline = self._client.pipeline(transaction=False)
        for subject in subjects:
            # Stream ids are the server's clock; a sample is stored within a second of its `at`.
            pipeline.xrange(f"series:{subject}", min=max(int((since - 2) * 1000), 0))
        for subject, entries in zip(subjects, pipeline.execute(), strict=True):
            samples = (_sample(entry[FIELD.encode()]) for _, entry in entries)
            found[subject] = [sample for sample in samples if sample and sample.at >= since]
        return dict(found)

    def demand(self, deployments: Sequence[str]) -> dict[str, int]:
        """Calls that wait for deployments of which no replica is ready, as a gateway counts."""
        if not deployments:
            return {}
        counts = self._client.mget([f"demand:{name}" for name in deployments])
        return {name: int(n) for name, n in zip(deployments, counts, strict=True) if n}

    def close(self) -> None:
        self._client.close()


def heard(subjects: Sequence[str] | None = None, *, kind: str = "") -> dict[str, Sample]:
    """The last samples of these or of a kind, for pages and commands; none without Valkey."""
    store = Store()
    try:
        return store.latest(store.subjects(kind) if subjects is None else subjects)
    except (redis.RedisError, OSError):
        return {}
    finally:
        store.close()


def _sample(text: bytes | None) -> Sample | None:
    try:
        values = json.loads(text) if text else None
    except ValueError:
        return None
    return from_dict(values) if isinstance(values, dict) else None
