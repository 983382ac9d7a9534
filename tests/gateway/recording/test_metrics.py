"""What a Prometheus server reads of the gateway's page: the sum of all workers."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from control.gateway.recording import metrics
from control.gateway.recording.counted import Counted
from control.gateway.recording.metrics import Bounds, Tally


def page(*tallies: Tally) -> dict[str, float]:
    """`name label=value …` → value, as Prometheus' own parser reads it."""
    families = text_string_to_metric_families(metrics.text(metrics.total(tallies)))
    samples = [sample for family in families for sample in family.samples]
    return {_full_name(sample): sample.value for sample in samples}


def _full_name(sample: Sample) -> str:
    labels = [f"{name}={value}" for name, value in sorted(sample.labels.items())]
    return " ".join([sample.name, *labels])


def test_counters_and_gauges_of_workers_are_summed_and_the_oldest_knowledge_is_told():
    one, other = Tally(), Tally()
    one.add("calls_total", route="chat", outcome="complete")
    other.add("calls_total", 2, route="chat", outcome="complete")
    one.gauges = {"in_flight": 1, "snapshot_age_seconds": 0.5}
    other.gauges = {"in_flight": 2, "snapshot_age_seconds": 4}
    read = page(one, other)
    assert read["weir_calls_total outcome=complete route=chat"] == 3
    assert read["weir_in_flight"] == 3
    assert read["weir_snapshot_age_seconds"] == 4


def test_a_count_beyond_a_million_is_exact():
    tally = Tally()
    tally.add("tokens_total", 123_456_789, route="chat")
    assert page(tally)["weir_tokens_total route=chat"] == 123_456_789


def test_a_histogram_is_cumulative_for_each_of_its_labels():
    tally = Tally()
    for seconds in (0.02, 0.02, 400):
        tally.observe("ttft_seconds", seconds, route="chat")
    tally.observe("ttft_seconds", 0.2, route="other")
    tally.observe("wait_seconds", 0.2)
    read = page(tally)
    assert read["weir_ttft_seconds_bucket le=0.01 route=chat"] == 0
    assert read["weir_ttft_seconds_bucket le=0.025 route=chat"] == 2
    assert read["weir_ttft_seconds_bucket le=160 route=chat"] == 2
    assert read["weir_ttft_seconds_bucket le=+Inf route=chat"] == 3
    assert read["weir_ttft_seconds_count route=chat"] == 3
    assert read["weir_ttft_seconds_bucket le=0.2 route=other"] == 1
    assert read["weir_wait_seconds_bucket le=0.25"] == 1


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        ("ttft_seconds", {0.1, 0.3, 0.5, 1, 2, 5}),
        ("tpot_seconds", {0.01, 0.02, 0.05, 0.1}),
    ],
)
def test_objectives_lie_on_edges(family, wanted):
    edges = metrics.edges_of(family)
    assert wanted <= set(edges)
    assert list(edges) == sorted(edges)


def test_only_labels_of_few_values_are_kept():
    tally = Tally()
    tally.add("calls_total", route="chat", key="k_9", call_id="req_1", user="u")
    assert list(tally.counters) == ['calls_total{route="chat"}']


def test_tenants_beyond_the_most_there_are_share_a_series():
    counted = Counted(Tally())
    most = metrics.LABELS_MAX["tenant"]
    for number in range(most + 50):
        names = counted.names("chat", f"t{number}", "standard")
        counted.tally.raise_(names.calls["complete"])
    calls = counted.tally.counters
    assert len(calls) == most + 1
    assert max(calls.values()) == 50
    assert 'tenant="other"' in max(calls, key=calls.get)


def test_two_workers_tenants_are_bounded_together():
    tallies = [Tally(), Tally()]
    most = metrics.LABELS_MAX["tenant"]
    for number in range(2 * most):
        tallies[number % 2].add("calls_total", tenant=f"t{number}")
    bounds = Bounds()
    first, again = (metrics.total(tallies, bounds).counters for _ in range(2))
    assert first == again
    assert len(first) == most + 1
    assert first['calls_total{tenant="other"}'] == most


def test_a_label_may_hold_any_text():
    tally = Tally()
    tally.add("calls_total", route='a"b\\c\nd')
    assert page(tally) == {'weir_calls_total route=a"b\\c\nd': 1, "weir_snapshot_age_seconds": 0}
