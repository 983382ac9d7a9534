"""What gateways know: identities, routes, replicas, each with a version. Compiled elsewhere."""

import msgspec

from control.metering.prices.rules import Rows
from control.states import Part

FORMAT = 1  # raised with an incompatible change; gateways accept this and the one before


class BudgetInfo(msgspec.Struct, frozen=True):
    """What a scope may spend in a period, in one unit; its account is counted in the database."""

    id: int
    unit: str  # one of states.BudgetUnit
    currency: str
    text: str  # what it is, as people read it
    scope: str


class Scope(msgspec.Struct, frozen=True):
    """A ceiling of its own: `t:1`, `p:4` or `k:9`, with the limits it names (None is no limit)."""

    id: str
    limits: dict[str, int]
    budgets: tuple[BudgetInfo, ...] = ()


class Identity(msgspec.Struct, frozen=True):
    """Whom a key digest speaks for. Times are epoch seconds."""

    key_id: int
    tenant_id: int
    project_id: int
    tenant: str
    project: str
    key: str
    priority: str
    scopes: tuple[str, ...]
    routes: tuple[str, ...] | None  # None is every route
    expires_at: float | None
    endpoints: tuple[str, ...] | None = None  # as `Ask.endpoint` names them; None is every one
    networks: tuple[str, ...] = ()  # CIDR ranges it may call from; none named is anywhere


class Identities(msgspec.Struct, frozen=True):
    format: int
    version: int
    keys: dict[str, Identity]  # digest, hex
    scopes: dict[str, Scope]


class TargetInfo(msgspec.Struct, frozen=True):
    deployment: str
    weight: int
    context_tokens: int | None


class RuleInfo(msgspec.Struct, frozen=True):
    """Where calls go that match all that it names; the first rule that matches decides."""

    targets: tuple[TargetInfo, ...]
    tenants: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    input_tokens_min: int | None = None
    input_tokens_max: int | None = None
    hours: tuple[int, int] | None = None  # from, until (excluded), of the day in UTC; may wrap
    header: tuple[str, str] | None = None  # name in lower case, value


class BucketInfo(msgspec.Struct, frozen=True):
    """What may be asked of a route or deployment, whoever asks; None is what its engines can."""

    calls_per_second: float | None = None
    tokens_per_second: float | None = None
    burst_seconds: float = 5.0


class ModerationInfo(msgspec.Struct, frozen=True):
    """A judge asked over HTTP: of the prompt, of the answer, or of both."""

    url: str
    before: bool = True
    after: bool = False
    timeout_ms: int = 500
    fail_open: bool = True


class RouteInfo(msgspec.Struct, frozen=True):
    name: str
    created_at: int
    stop: tuple[str, ...]
    output_tokens_default: int | None
    output_tokens_max: int | None
    targets: tuple[TargetInfo, ...]
    rules: tuple[RuleInfo, ...] = ()
    fallback: str | None = None  # deployment, when no target can serve
    policy: str = "load_aware"  # one of states.RoutingPolicy
    on_replica_loss: str = "continue"  # or `end`
    priority: str = "interactive"  # the most urgent that its calls may be
    deadline_ms: int | None = None  # of calls that name none
    waiting_seconds: float | None = None
    cold_start_seconds: float | None = None  # how long a call waits for a model that loads
    commit_after_seconds: float | None = None  # how long headers are held back
    progress: bool = False  # comments while waiting, also to those who do not ask
    shared_prefix: bool = False  # the prompt's beginning is the operator's: one salt for all
    media_hosts: tuple[str, ...] = ()
    members: tuple[str, ...] = ()  # of a body, allowed beyond the table's
    bucket: BucketInfo | None = None
    moderation: ModerationInfo | None = None
    sample: float = 0.01  # share of calls whose trace is kept though nothing was wrong
    start_seconds: float | None = (
        None  # that a cold start took of late, the quickest of its targets
    )


class DeploymentInfo(msgspec.Struct, frozen=True):
    """What holds for all replicas of one deployment."""

    name: str
    bucket: BucketInfo | None = None
    model: str = ""  # in the catalogue: what its calls are priced by
    hindrance: str = ""  # one of states.Hindrance: why nothing of it is on its way to serve
    cause: str = ""  # of its last failed launch
    launch_after: float | None = None  # epoch seconds: it is not tried again before
    guarded_since: float | None = None  # epoch seconds: it ran out of memory then
    guarded_until: float | None = None
    guard_tokens: int = 0  # of a call that it takes meanwhile, until larger ones were served


class Routes(msgspec.Struct, frozen=True):
    format: int
    version: int
    routes: dict[str, RouteInfo]
    deployments: dict[str, DeploymentInfo] = {}
    prices: dict[str, Rows] = {}  # by model: in force, and those to come
    own_prices: dict[int, dict[str, Rows]] = {}  # of tenants, before everyone's


class ReplicaInfo(msgspec.Struct, frozen=True):
    """An address bound to one launch; `sealed_key` is Fernet text, empty without a key."""

    id: int
    generation: int
    deployment: str
    version_id: int
    host: str
    port: int
    path: str  # prefix of an external engine's URL, usually empty
    tls: bool
    served_name: str
    slots: int
    state: str  # ready | unhealthy | draining | a state before ready
    sealed_key: str
    engine: str = "external"  # its kind
    model: str = ""  # and version, by name: what an answer may be continued on
    version: str = ""
    kv_tokens: int | None = None  # that its cache holds, as it reported
    drain_by: float | None = None  # epoch seconds, of one that drains: then it is left


class Replicas(msgspec.Struct, frozen=True):
    format: int
    version: int
    replicas: tuple[ReplicaInfo, ...]


PARTS: dict[Part, type] = {
    Part.IDENTITIES: Identities,
    Part.ROUTES: Routes,
    Part.REPLICAS: Replicas,
}


def decode(part: Part, payload: bytes) -> Identities | Routes | Replicas:
    return msgspec.json.decode(payload, type=PARTS[part])
