"""Every address of the console."""

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.http import HttpResponse
from django.urls import include, path

from console.access import ChoosePassword, SignIn
from console.api import own_usage
from console.pages import (
    audit,
    budgets,
    costs,
    credit,
    deployments,
    disk,
    drift,
    exports,
    invoices,
    keys,
    members,
    models,
    nodes,
    overview,
    own,
    placing,
    playground,
    prices,
    recovery,
    scoped_budget,
    tenants,
    usage,
)


@login_not_required
def health(_request) -> HttpResponse:
    """200 as soon as the process serves; what it depends on is shown by `weir status`."""
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    path("", overview.show, name="overview"),
    path("deployments/", deployments.show, name="deployments"),
    path("deployments/replicas/<int:replica_id>/", deployments.replica, name="replica"),
    path("deployments/<slug:name>/", deployments.one, name="deployment"),
    path("deployments/<slug:name>/scale/", deployments.scale, name="scale"),
    path("deployments/<slug:name>/place/", placing.place, name="place"),
    path("deployments/<slug:name>/drain/", deployments.drain, name="drain"),
    path("deployments/<slug:name>/retry/", recovery.retry, name="retry"),
    path(
        "deployments/<slug:name>/overrides/<int:override_id>/drop/",
        recovery.drop_override,
        name="drop-override",
    ),
    path("nodes/<slug:name>/release/", recovery.release, name="release-device"),
    path("nodes/<slug:name>/quarantine/", recovery.quarantine, name="quarantine-device"),
    path("nodes/", nodes.show, name="nodes"),
    path("nodes/<slug:name>/", nodes.one, name="node"),
    path("nodes/<slug:name>/drain/", nodes.drain, name="drain-node"),
    path("nodes/<slug:name>/leaving/", nodes.leaving, name="node-leaving"),
    path("nodes/<slug:name>/describe/", nodes.describe, name="describe-node"),
    path("nodes/<slug:name>/runtimes/", disk.install, name="install-runtime"),
    path("nodes/<slug:name>/remove/", nodes.remove, name="remove-node"),
    path("nodes/<slug:name>/cordon/", nodes.cordon, name="cordon"),
    path("models/", models.show, name="models"),
    path("models/<slug:name>/", models.one, name="model"),
    path("models/<slug:name>/prefetch/", models.prefetch, name="prefetch"),
    path("models/routes/<path:name>/", models.route, name="route"),
    path("tenants/", tenants.show, name="tenants"),
    path("tenants/<slug:name>/", tenants.one, name="tenant"),
    path("tenants/<slug:name>/credit/", credit.add, name="add-credit"),
    path("tenants/<slug:name>/members/", members.change, name="members"),
    path("tenants/<slug:name>/budget/", scoped_budget.change, name="set-budget"),
    path("keys/", keys.show, name="keys"),
    path("keys/<int:key_id>/revoke/", keys.revoke, name="revoke-key"),
    path("usage/", usage.show, name="usage"),
    path("usage/drift/", drift.show, name="drift"),
    path("usage/drift/<int:drift_id>/close/", drift.close, name="close-drift"),
    path("usage/calls.csv", usage.export, name="usage-csv"),
    path("costs/", costs.show, name="costs"),
    path(
        "costs/weights/<str:model>/<str:version>/",
        costs.take_over,
        name="take-over-weights",
    ),
    path("budgets/", budgets.show, name="budgets"),
    path("budgets/seen/", budgets.seen, name="alerts-seen"),
    path("prices/", prices.show, name="prices"),
    path("prices/margins/", prices.margins, name="margins"),
    path("prices/of/<str:model>/", prices.one, name="price"),
    path("prices/of/<str:model>/withdraw/", prices.withdraw, name="withdraw-price"),
    path("invoices/", invoices.show, name="invoices"),
    path("invoices/credit/", invoices.credit, name="goodwill"),
    path("invoices/terms/", invoices.terms, name="billing-terms"),
    path("invoices/months/<int:period_id>/", invoices.preview, name="period"),
    path("invoices/<slug:tenant>/<slug:month>/close/", invoices.close, name="close-period"),
    path("invoices/<slug:number>/", invoices.one, name="invoice"),
    path("invoices/<slug:number>/lines.csv", exports.invoice, name="invoice-csv"),
    path("exports/", exports.show, name="exports"),
    path("exports/save/", exports.save, name="save-export"),
    path("exports/<slug:name>/remove/", exports.remove, name="remove-export"),
    path("exports/file/", exports.download, name="export"),
    path("playground/", playground.show, name="playground"),
    path("audit/", audit.show, name="audit"),
    path("own/", own.usage, name="own"),
    path("own/calls/", own.calls, name="own-calls"),
    path("own/budgets/", own.budgets, name="own-budgets"),
    path("own/invoices/", own.invoices, name="own-invoices"),
    path("own/invoices/<str:number>/", own.invoice, name="own-invoice"),
    path("own/password/", own.password, name="own-password"),
    path(
        "password/<uidb64>/<token>/",
        login_not_required(ChoosePassword.as_view()),
        name="choose-password",
    ),
    path("v1/usage", own_usage.show, name="own-usage"),
    path("api/", include("console.api.urls")),
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("health", health, name="health"),
]
