"""A service.yaml that is applied, and what came of it."""

from datetime import UTC, datetime, timedelta

import pytest

from control.apply.actions import Applied, apply
from control.apply.wanted import BadFile

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
ONE, TWO = "one-" + "1" * 32, "two-" + "2" * 32

SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    limits: {requests_per_minute: 60}
    budget: {amount: "5", currency: USD}
    projects: [{name: web, limits: {concurrent_calls: 2}}]
    keys: [{name: ci, project: web, secret_env: ACME_KEY, routes: [chat]}]
models:
  - name: m
    versions:
      - name: v1
        engine: {kind: external, url: "http://127.0.0.1:9000", served_name: m, api_key_env: UP}
deployments: [{name: d, model: m, version: v1}]
routes: [{name: chat, targets: [{deployment: d}]}]
prices: [{model: m, currency: USD, per_million: {input: "0.1", output: "0.4"}}]
cost_rates: [{device: "*", currency: USD, hardware_per_hour: "2.5", pue: 1.35}]
"""
EMPTY = "apiVersion: weir/v1\n"


def do(text: str = SERVICE, *, at=AT, prune=False, carry_out=True, **environment) -> Applied:
    environment = {"ACME_KEY": ONE, "UP": "upstream", **environment}
    options = {"prune": prune, "carry_out": carry_out, "environment": environment}
    return apply(text, by="anna", reason="a test", at=at, **options)


def refusal(text: str, **options) -> str:
    with pytest.raises(BadFile) as bad:
        do(text, **options)
    return str(bad.value)


def steps(applied: Applied) -> list[str]:
    return [f"{step.verb} {step.subject}" for step in applied.plan.changes]
