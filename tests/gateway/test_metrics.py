"""What a Prometheus server reads of the gateway's page: the sum of all workers."""

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from control.gateway import metrics
from control.gateway.metrics import Tally


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
    assert read["weir_gateway_calls_total outcome=complete route=chat"] == 3
    assert read["weir_gateway_in_flight"] == 3
    assert read["weir_gateway_snapshot_age_seconds"] == 4


def test_a_histogram_is_cumulative():
    tally = Tally()
    for seconds in (0.02, 0.02, 400):
        tally.observe("ttft_seconds", seconds)
    read = page(tally)
    assert read["weir_gateway_ttft_seconds_bucket le=0.01"] == 0
    assert read["weir_gateway_ttft_seconds_bucket le=0.025"] == 2
    assert read["weir_gateway_ttft_seconds_bucket le=300"] == 2
    assert read["weir_gateway_ttft_seconds_bucket le=+Inf"] == 3
    assert read["weir_gateway_ttft_seconds_count"] == 3
