"""The nouns of the platform as tables."""

from control.models.audit import AuditEntry
from control.models.catalog import CatalogModel, Version, VersionMeasure
from control.models.cost import (
    CostHour,
    CostHourMade,
    CostMonth,
    CostPool,
    CostShare,
    DeviceHour,
    DeviceUse,
    TokenWeights,
    Variant,
)
from control.models.credit import BudgetAlert, CreditEntry, CreditSpan
from control.models.deployment import Deployment, ScalingState
from control.models.drift import Attempt, Drift, EngineCount, EngineReading
from control.models.fleet import Device, IllegalMove, Node, Reservation
from control.models.invoices import (
    BillingPeriod,
    BillingTerms,
    Charge,
    ExportSchedule,
    GoodwillCredit,
    Invoice,
    InvoiceLine,
)
from control.models.letters import Incident, IncidentLetter, Letter
from control.models.measures import ColdStart, VersionPeak, WakeUp
from control.models.members import TenantMember
from control.models.money import Account, AccountLease, CostRate, Posting, Price, Transfer
from control.models.override import Override
from control.models.prices import PriceBook, PriceVolume
from control.models.replica import Replica, StateChange
from control.models.routes import GatewayProcess, Route, SnapshotPart, Target
from control.models.stores import NodeRuntime, NodeWeights
from control.models.telemetry import CallTrace, Point, ReplicaUse
from control.models.tenancy import QUOTA_FIELDS, Budget, Key, Project, Quota, Tenant
from control.models.usage import RefusalCount, SpoolPosition, UsageEvent, UsageHour

__all__ = [
    "QUOTA_FIELDS",
    "Account",
    "AccountLease",
    "Attempt",
    "AuditEntry",
    "BillingPeriod",
    "BillingTerms",
    "Budget",
    "BudgetAlert",
    "CallTrace",
    "CatalogModel",
    "Charge",
    "ColdStart",
    "CostHour",
    "CostHourMade",
    "CostMonth",
    "CostPool",
    "CostRate",
    "CostShare",
    "CreditEntry",
    "CreditSpan",
    "Deployment",
    "Device",
    "Drift",
    "EngineCount",
    "EngineReading",
    "DeviceHour",
    "DeviceUse",
    "ExportSchedule",
    "GatewayProcess",
    "GoodwillCredit",
    "IllegalMove",
    "Incident",
    "IncidentLetter",
    "Invoice",
    "InvoiceLine",
    "Key",
    "Letter",
    "Node",
    "NodeRuntime",
    "NodeWeights",
    "Override",
    "Point",
    "Posting",
    "Price",
    "PriceBook",
    "PriceVolume",
    "Project",
    "Quota",
    "RefusalCount",
    "Replica",
    "ReplicaUse",
    "Reservation",
    "Route",
    "ScalingState",
    "SnapshotPart",
    "SpoolPosition",
    "StateChange",
    "Target",
    "Tenant",
    "TenantMember",
    "TokenWeights",
    "Transfer",
    "UsageEvent",
    "UsageHour",
    "Variant",
    "Version",
    "VersionMeasure",
    "VersionPeak",
    "WakeUp",
]
