"""The operators' REST API: staff only, whole objects, secrets once, errors by name."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from control.checks import Bucket
from control.models import AuditEntry, Deployment, Key, Replica, Tenant
from control.models.sealing import digest_of
from control.routes.actions import save_route
from control.routes.wanted import RouteWanted, RuleWanted, TargetWanted
from control.states import KeyState
from control.tenancy import actions
from control.tenancy.rules import TenantWanted
from tests.fleet.rows import a_deployment, a_node

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
WHO = {"by": "test", "reason": "a test", "at": AT}


@pytest.fixture
def acme() -> Tenant:
    return actions.save_tenant(TenantWanted("acme"), **WHO)


def problems(response) -> dict[str, str]:
    return {it["field"]: it["what"] for it in response.json()["error"]["problems"]}


ADDRESSES = [
    "tenants",
    "keys",
    "deployments",
    "routes",
    "nodes",
    "models",
    "usage",
    "drift",
    "schema",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_stranger_hears_401_and_a_user_without_staff_403(address):
    client = APIClient()
    response = client.get(f"/api/{address}/")
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Basic")
    client.force_authenticate(get_user_model().objects.create_user("eve"))
    assert client.get(f"/api/{address}/").status_code == 403


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_browser_is_answered_too(api, address):
    assert api.get(f"/api/{address}/", headers={"accept": "text/html,*/*;q=0.8"}).status_code == 200


def test_basic_authentication_signs_an_operator_in():
    get_user_model().objects.create_user("ann", password="a long password", is_staff=True)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Basic YW5uOmEgbG9uZyBwYXNzd29yZA==")
    assert client.get("/api/tenants/").json()["count"] == 0


def test_a_tenant_is_made_read_changed_and_archived(api):
    body = {
        "priority": "interactive",
        "limits": {"requests_per_minute": 60},
        "budget": {"amount": "5", "currency": "USD"},
    }
    made = api.put("/api/tenants/acme/", body, format="json").json()
    assert made["limits"] == {"requests_per_minute": 60}
    assert made["budget"] == {
        "amount": "5.000000",
        "currency": "USD",
        "period": "month",
        "tokens": None,
        "mode": "hard",
    }
    devices = {"devices_guaranteed": 0, "devices_maximum": None}
    assert made["projects"] == [{"name": "default", "limits": {}, "budget": None} | devices]
    whole = api.put("/api/tenants/acme/", {}, format="json").json()
    assert (whole["priority"], whole["limits"], whole["budget"]) == ("standard", {}, None)
    assert api.delete("/api/tenants/acme/").status_code == 204
    assert api.get("/api/tenants/acme/").json()["archived_at"]
    assert api.delete("/api/tenants/acme/").status_code == 404


def test_the_audit_names_the_caller_and_the_reason(api):
    api.put("/api/tenants/acme/?reason=ticket 7", {}, format="json")
    entry = AuditEntry.objects.get()
    assert (entry.by, entry.reason) == ("ann", "ticket 7")


def test_a_key_shows_its_secret_once(api, acme):
    response = api.post("/api/keys/", {"tenant": "acme", "name": "ci"}, format="json")
    assert response.status_code == 201
    assert response.headers["Cache-Control"] == "no-store"
    secret = response.json()["secret"]
    assert Key.objects.get().digest == digest_of(secret)
    listed = api.get("/api/keys/?tenant=acme")
    assert listed.json()["results"][0]["shown"] == response.json()["shown"]
    assert secret not in listed.content.decode()


def test_a_key_is_scoped_to_endpoints_networks_and_a_priority(api, acme):
    scope = {"endpoints": ["models"], "networks": ["10.0.0.0/8"], "priority": "batch"}
    body = {"tenant": "acme", "name": "ci", **scope}
    assert api.post("/api/keys/", body, format="json").status_code == 201
    [key] = api.get("/api/keys/").json()["results"]
    assert {name: key[name] for name in scope} == scope
    body = {"tenant": "acme", "name": "other", "networks": ["10.0.0.1/8"]}
    response = api.post("/api/keys/", body, format="json")
    assert "write 10.0.0.0/8" in problems(response)["networks[0]"]
    body = {"tenant": "acme", "name": "other", "routes": ["nope"]}
    response = api.post("/api/keys/", body, format="json")
    assert response.status_code == 400
    assert "there is no route 'nope'" in problems(response)["routes[0]"]


def test_a_route_tells_how_its_calls_are_treated(api, acme):
    a_deployment("d")
    rule = RuleWanted((TargetWanted("d", 7),), tenants=("acme",), hours=(22, 6))
    wanted = RouteWanted("chat", (TargetWanted("d"),), rules=(rule,), bucket=Bucket(2))
    save_route(wanted, **WHO)
    [route] = api.get("/api/routes/").json()["results"]
    assert route["rules"] == [
        {
            "tenants": ["acme"],
            "priorities": [],
            "input_tokens_min": None,
            "input_tokens_max": None,
            "hours": [22, 6],
            "header": None,
            "targets": [{"deployment": "d", "weight": 7}],
        }
    ]
    bucket = {"calls_per_second": 2.0, "tokens_per_second": None, "burst_seconds": 5.0}
    assert (route["bucket"], route["moderation"], route["sample"]) == (bucket, None, 0.01)
    assert (route["policy"], route["targets"][0]["weight"]) == ("load_aware", 100)


def test_a_key_is_revoked_for_ever(api, acme):
    made = actions.create_key(tenant="acme", name="ci", **WHO)
    assert api.delete(f"/api/keys/{made.key_id}/").status_code == 204
    assert Key.objects.get().state == KeyState.REVOKED
    assert api.delete(f"/api/keys/{made.key_id}/").status_code == 204
    response = api.delete("/api/keys/999999/")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"priority": "high"}, "priority", "not a valid choice"),
        ({"limits": {"requests_per_minute": 0}}, "limits.requests_per_minute", "not between"),
        ({"limits": {"requests_per_minute": "x"}}, "limits.requests_per_minute", "integer"),
        ({"limits": {"tokens": 5}}, "limits.tokens", "is not understood"),
        ({"colour": "red"}, "colour", "is not understood"),
        ({"timezone": "Mars"}, "timezone", "is no IANA time zone"),
        ({"budget": {"amount": "1"}}, "budget.currency", "three capitals"),
        ({"budget": {"amount": "1.0000001", "currency": "USD"}}, "budget.amount", "6 decimal"),
    ],
)
def test_a_bad_field_is_refused_by_name(api, body, field, said):
    response = api.put("/api/tenants/acme/", body, format="json")
    assert response.status_code == 400
    assert said in problems(response)[field]
    assert not Tenant.objects.exists()


@pytest.mark.parametrize("body", ["[]", "7", "{", '"x"', "null"])
def test_a_body_that_is_no_object_is_refused(api, body):
    response = api.put("/api/tenants/acme/", body, content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"]["message"]


def test_a_key_of_nobody_is_refused_by_name(api, acme):
    response = api.post("/api/keys/", {"tenant": "nobody", "name": "ci"}, format="json")
    assert (response.status_code, problems(response)) == (
        404,
        {"tenant": "there is no tenant 'nobody'"},
    )
    response = api.post(
        "/api/keys/", {"tenant": "acme", "name": "ci", "secret": "short"}, format="json"
    )
    assert (response.status_code, list(problems(response))) == (400, ["secret"])


def test_a_deployment_is_scaled_and_drained(api):
    a_deployment("gemma", wanted=1)
    body = {"replicas_min": 2, "replicas_max": 3}
    scaled = api.post("/api/deployments/gemma/scale/", body, format="json").json()
    assert (scaled["replicas_min"], scaled["replicas_max"], scaled["wanted"]) == (2, 3, 2)
    body = {"replicas_min": 3, "replicas_max": 2}
    response = api.post("/api/deployments/gemma/scale/", body, format="json")
    assert problems(response) == {"replicas.max": "2 is below replicas.min, 3"}
    assert api.post("/api/deployments/gemma/drain/").json()["state"] == "draining"
    assert Deployment.objects.get().replicas_wanted == 0
    assert api.post("/api/deployments/nowhere/drain/").status_code == 404


def test_a_node_is_cordoned_and_struck_off_only_when_it_is_gone(api):
    node = a_node("n1", at=AT)
    Replica.objects.create(deployment=a_deployment("d"), generation=1, node=node)
    body = {"cordoned": True}
    assert api.post("/api/nodes/n1/cordon/", body, format="json").json()["cordoned"]
    assert "cordon and drain it first" in problems(api.delete("/api/nodes/n1/"))["node"]
    node.state = "lost"
    node.save()
    assert api.delete("/api/nodes/n1/").status_code == 204
    assert Replica.objects.get().state == "stopped"
    assert api.get("/api/nodes/").json()["count"] == 0


def test_lists_come_in_pages(api):
    for number in range(3):
        actions.save_tenant(TenantWanted(f"t{number}"), **WHO)
    page = api.get("/api/tenants/?limit=2&offset=1").json()
    assert (page["count"], [row["name"] for row in page["results"]]) == (3, ["t1", "t2"])


@pytest.mark.parametrize("rows", [1, 5])
def test_a_list_takes_the_same_queries_however_long(api, django_assert_max_num_queries, rows):
    for number in range(rows):
        actions.save_tenant(TenantWanted(f"t{number}"), **WHO)
        actions.create_key(tenant=f"t{number}", name="ci", **WHO)
    with django_assert_max_num_queries(12):
        api.get("/api/tenants/")
        api.get("/api/keys/")


def test_usage_of_a_month(api):
    assert api.get("/api/usage/?month=2026-11&group=tenant&group=day").json() == []
    response = api.get("/api/usage/?month=november")
    assert list(problems(response)) == ["month"]
    assert list(problems(api.get("/api/usage/?group=colour"))) == ["group"]


def test_the_schema_is_valid_and_names_every_noun(api):
    schema = api.get("/api/schema/?format=json").json()
    validate_schema(schema)
    assert {path.split("/")[2] for path in schema["paths"]} >= set(ADDRESSES) - {"schema"}


@pytest.mark.parametrize("noun", ["budgets", "alerts", "usage", "keys", "invoices", "periods"])
@pytest.mark.parametrize("name", ["a" * 97, "a%00b"])
def test_what_can_be_no_name_is_refused_wherever_one_asks_by_it(api, noun, name):
    answer = api.get(f"/api/{noun}/?tenant={name}")
    assert answer.status_code == 400
    assert problems(answer) == {"tenant": "is no name"}
