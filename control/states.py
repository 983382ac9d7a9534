"""Every closed set of words that rows keep; where a state may go more than one way, its moves."""

from enum import StrEnum


class ReplicaState(StrEnum):
    PENDING = "pending"
    PLACED = "placed"
    PREPARING = "preparing"
    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    UNHEALTHY = "unhealthy"
    DRAINING = "draining"
    ASLEEP = "asleep"  # its engine runs and has given its card back
    WAKING = "waking"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


_ENDS = {ReplicaState.FAILED, ReplicaState.LOST}
_DRAIN = {ReplicaState.DRAINING}

REPLICA_MOVES: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.PENDING: frozenset(
        {ReplicaState.PLACED, ReplicaState.STARTING, ReplicaState.STOPPED} | _ENDS
    ),
    ReplicaState.PLACED: frozenset({ReplicaState.PREPARING} | _DRAIN | _ENDS),
    ReplicaState.PREPARING: frozenset({ReplicaState.STARTING} | _DRAIN | _ENDS),
    ReplicaState.STARTING: frozenset(
        {ReplicaState.LOADING, ReplicaState.WARMING, ReplicaState.READY} | _DRAIN | _ENDS
    ),
    ReplicaState.LOADING: frozenset({ReplicaState.WARMING} | _DRAIN | _ENDS),
    ReplicaState.WARMING: frozenset({ReplicaState.READY} | _DRAIN | _ENDS),
    ReplicaState.READY: frozenset({ReplicaState.UNHEALTHY} | _DRAIN | _ENDS),
    ReplicaState.UNHEALTHY: frozenset({ReplicaState.READY} | _DRAIN | _ENDS),
    ReplicaState.DRAINING: frozenset({ReplicaState.STOPPED, ReplicaState.ASLEEP} | _ENDS),
    ReplicaState.ASLEEP: frozenset({ReplicaState.WAKING} | _DRAIN | _ENDS),
    ReplicaState.WAKING: frozenset({ReplicaState.WARMING} | _DRAIN | _ENDS),
    ReplicaState.LOST: frozenset(
        {
            ReplicaState.READY,
            ReplicaState.DRAINING,
            ReplicaState.ASLEEP,
            ReplicaState.STOPPED,
            ReplicaState.FAILED,
        }
    ),
    ReplicaState.STOPPED: frozenset(),
    ReplicaState.FAILED: frozenset(),
}

REPLICA_FINAL = frozenset(state for state, moves in REPLICA_MOVES.items() if not moves)
REPLICA_LIVE = frozenset(REPLICA_MOVES) - REPLICA_FINAL
REPLICA_BEFORE_READY = frozenset(
    {
        ReplicaState.PENDING,
        ReplicaState.PLACED,
        ReplicaState.PREPARING,
        ReplicaState.STARTING,
        ReplicaState.LOADING,
        ReplicaState.WARMING,
        ReplicaState.WAKING,
    }
)
# States in which an engine process may exist, so that its node has to look after it.
REPLICA_ON_NODE = REPLICA_LIVE - {ReplicaState.PENDING}


class NodeState(StrEnum):
    READY = "ready"
    UNKNOWN = "unknown"  # silent for 15 s: nothing new is placed on it
    LOST = "lost"  # silent for 60 s: its replicas are replaced elsewhere
    REMOVED = "removed"


NODE_MOVES: dict[NodeState, frozenset[NodeState]] = {
    NodeState.READY: frozenset({NodeState.UNKNOWN, NodeState.REMOVED}),
    NodeState.UNKNOWN: frozenset({NodeState.READY, NodeState.LOST, NodeState.REMOVED}),
    NodeState.LOST: frozenset({NodeState.READY, NodeState.REMOVED}),
    NodeState.REMOVED: frozenset({NodeState.READY}),
}


class DeploymentState(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"
    ARCHIVED = "archived"


class Hindrance(StrEnum):
    """Why nothing of a deployment is on its way to serve, though it is wanted."""

    NONE = ""
    UNPLACED = "unplaced"  # no node has room for it
    BACK_OFF = "back_off"  # its launches failed; it is tried again
    GIVEN_UP = "given_up"  # its launch failed in a way that it would fail again


DEPLOYMENT_MOVES: dict[DeploymentState, frozenset[DeploymentState]] = {
    DeploymentState.ACTIVE: frozenset({DeploymentState.DRAINING}),
    DeploymentState.DRAINING: frozenset({DeploymentState.ACTIVE, DeploymentState.ARCHIVED}),
    DeploymentState.ARCHIVED: frozenset({DeploymentState.ACTIVE}),
}


class KeyState(StrEnum):
    ACTIVE = "active"
    REVOKED = "revoked"


KEY_MOVES: dict[KeyState, frozenset[KeyState]] = {
    KeyState.ACTIVE: frozenset({KeyState.REVOKED}),
    KeyState.REVOKED: frozenset(),
}


class ReservationState(StrEnum):
    HELD = "held"
    RELEASED = "released"


class FilesState(StrEnum):
    """Of a runtime or of weights on a node; each is asked for again from any state."""

    WANTED = "wanted"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Priority(StrEnum):
    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"


class Outcome(StrEnum):
    """How an admitted call ended; a closed set that doubles as metric label."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # [DONE] without a finish reason
    TRUNCATED = "truncated"  # the engine's stream broke off
    UPSTREAM_ERROR = "upstream_error"
    REJECTED = "rejected"  # the engine would not take the call: a 4xx, and no work
    CLIENT_CLOSED = "client_closed"
    SLOW_CLIENT = "slow_client"
    DEADLINE = "deadline"
    DRAINED = "drained"
    LOST = "lost"  # its gateway process died


class TokensSource(StrEnum):
    ENGINE = "engine"
    ESTIMATED = "estimated"


class Purpose(StrEnum):
    """What an attempt at an engine was for. All but the first are the platform's own."""

    CALL = "call"
    RETRY = "retry"
    CONTINUATION = "continuation"
    WARM_UP = "warm_up"
    PROBE = "probe"


class Interrupted(StrEnum):
    """What a call costs that did not end as it should: its price book says which."""

    GENERATED = "generated"  # its input, and the output made for it
    DELIVERED = "delivered"  # its input, and the output that was sent on; nothing without any
    NOTHING = "nothing"


class BudgetUnit(StrEnum):
    """What an account counts."""

    PICO = "pico"  # of its budget's currency
    TOKENS = "tokens"
    CREDIT = "credit"  # pico of what a tenant has paid ahead; it has no period


class BudgetMode(StrEnum):
    HARD = "hard"  # calls that do not fit are refused
    SOFT = "soft"  # people are told, calls go on


class Billing(StrEnum):
    POSTPAID = "postpaid"
    PREPAID = "prepaid"  # calls are paid for by credit, or refused


class LedgerAccount(StrEnum):
    """Of a tenant, in a currency. Debits are positive."""

    PREPAID = "prepaid"  # paid ahead: negative while calls are owed for it
    HELD = "held"  # of it, what gateways hold
    RECEIVABLE = "receivable"  # what a tenant owes
    REVENUE = "revenue"
    CREDIT_EXPENSE = "credit_expense"  # given away
    ROUNDING = "rounding"  # of what an invoice asks for


class CreditKind(StrEnum):
    """Why the credit of a tenant changed."""

    PURCHASE = "purchase"
    GOODWILL = "goodwill"
    REFUND = "refund"  # takes credit away, as it was paid


class Delivery(StrEnum):
    """Of an alert, to its tenant's URL."""

    NONE = "none"  # no URL was set
    WAITING = "waiting"
    SENDING = "sending"  # written down before: a sender that dies has sent it at most once
    DELIVERED = "delivered"
    FAILED = "failed"
    UNKNOWN = "unknown"  # its sender died meanwhile


class PeriodState(StrEnum):
    """Of a month of a tenant's calendar; what comes after the close goes to the next one."""

    OPEN = "open"
    CLOSING = "closing"  # it has ended; late calls still land in it
    CLOSED = "closed"


class ChargeCategory(StrEnum):
    """As FOCUS names them."""

    USAGE = "Usage"
    PURCHASE = "Purchase"
    CREDIT = "Credit"
    ADJUSTMENT = "Adjustment"


class TokenClass(StrEnum):
    """What a token is priced as."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    OUTPUT = "output"
    REASONING = "reasoning"


class Part(StrEnum):
    """The three parts of the gateway's snapshot, each with a version of its own."""

    IDENTITIES = "identities"
    ROUTES = "routes"
    REPLICAS = "replicas"


class RoutingPolicy(StrEnum):
    """How a replica is chosen among those of a target."""

    ROUND_ROBIN = "round_robin"
    LEAST_CALLS = "least_calls"
    TWO_CHOICES = "two_choices"
    LOAD_AWARE = "load_aware"
    PREFIX = "prefix"
    STICKY = "sticky"
