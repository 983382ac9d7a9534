"""Addresses under /api/: the operators' REST API and its schema."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import SimpleRouter

from console.api.alert_secrets import AlertSecret
from console.api.base import OperatorsOnly
from console.api.budgets import Alerts, AlertSeen, Budgets, ScopedBudget
from console.api.costs import Advice, Costs
from console.api.costs import Weights as TokenWeights
from console.api.credit import Credit
from console.api.disk import Runtimes, Weights
from console.api.drift import Drifts
from console.api.exports import Export, OneSchedule, Schedules
from console.api.fleet import Deployments, Routes
from console.api.invoices import (
    Close,
    Corrections,
    Goodwill,
    Invoices,
    OneInvoice,
    Periods,
    Terms,
)
from console.api.members import Member, Members
from console.api.models import Models
from console.api.nodes import Nodes
from console.api.prices import Margins, PriceHistory, PricePreview, PriceProposal, Prices
from console.api.tenancy import Keys, Tenants
from console.api.traces import OneTrace, Traces
from console.api.troubles import Incidents, Troubles
from console.api.usage import Usage


class Schema(OperatorsOnly, SpectacularAPIView):
    """The OpenAPI description of all of this."""

    renderer_classes = SpectacularAPIView.renderer_classes


router = SimpleRouter(use_regex_path=False)
router.register("tenants", Tenants, basename="api-tenant")
router.register("keys", Keys, basename="api-key")
router.register("deployments", Deployments, basename="api-deployment")
router.register("routes", Routes, basename="api-route")
router.register("models", Models, basename="api-model")
router.register("nodes", Nodes, basename="api-node")
router.register("drift", Drifts, basename="api-drift")

urlpatterns = [
    *router.urls,
    path("runtimes/", Runtimes.as_view(), name="api-runtimes"),
    path("weights/", Weights.as_view(), name="api-weights"),
    path("tenants/<slug:name>/members/", Members.as_view(), name="api-members"),
    path("tenants/<slug:name>/members/<str:username>/", Member.as_view(), name="api-member"),
    path("tenants/<slug:name>/alert-secret/", AlertSecret.as_view(), name="api-alert-secret"),
    path("tenants/<slug:name>/credit/", Credit.as_view(), name="api-credit"),
    path("tenants/<slug:name>/budget/", ScopedBudget.as_view(), name="api-scoped-budget"),
    path("budgets/", Budgets.as_view(), name="api-budgets"),
    path("alerts/", Alerts.as_view(), name="api-alerts"),
    path("alerts/<int:id>/seen/", AlertSeen.as_view(), name="api-alert-seen"),
    path("prices/", Prices.as_view(), name="api-prices"),
    path("prices/preview/", PricePreview.as_view(), name="api-price-preview"),
    path("prices/margins/", Margins.as_view(), name="api-margins"),
    path("prices/of/<str:model>/", PriceHistory.as_view(), name="api-price-history"),
    path("prices/of/<str:model>/proposal/", PriceProposal.as_view(), name="api-price-proposal"),
    path("troubles/", Troubles.as_view(), name="api-troubles"),
    path("incidents/", Incidents.as_view(), name="api-incidents"),
    path("periods/", Periods.as_view(), name="api-periods"),
    path("periods/<slug:tenant>/<str:month>/close/", Close.as_view(), name="api-close"),
    path("invoices/", Invoices.as_view(), name="api-invoices"),
    path("invoices/<slug:number>/", OneInvoice.as_view(), name="api-invoice"),
    path("goodwill/", Goodwill.as_view(), name="api-goodwill"),
    path("corrections/", Corrections.as_view(), name="api-corrections"),
    path("billing/", Terms.as_view(), name="api-billing"),
    path("export-schedules/", Schedules.as_view(), name="api-export-schedules"),
    path("export-schedules/<slug:name>/", OneSchedule.as_view(), name="api-export-schedule"),
    path("exports/<slug:what>/", Export.as_view(), name="api-export"),
    path("costs/", Costs.as_view(), name="api-costs"),
    path("costs/advice/", Advice.as_view(), name="api-advice"),
    path("costs/weights/", TokenWeights.as_view(), name="api-token-weights"),
    path("usage/", Usage.as_view(), name="api-usage"),
    path("traces/", Traces.as_view(), name="api-traces"),
    path("traces/<str:call_id>/", OneTrace.as_view(), name="api-trace"),
    path("schema/", Schema.as_view(), name="api-schema"),
]
