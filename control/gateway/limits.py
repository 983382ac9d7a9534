"""Every limit of the gateway, by name; `WEIR_GATEWAY_LIMITS` (JSON) sets others."""

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True)
class Limits:
    header_bytes: int = 64 * KIB
    body_bytes: int = 20 * MIB  # as sent
    bodies_bytes: int = 1024 * MIB  # of all requests that one process reads or answers
    decoded_bytes: int = 32 * MIB  # after gzip or deflate
    depth: int = 64  # of nested JSON
    header_seconds: float = 10
    body_grace_seconds: float = 10  # before the least rate counts
    body_bytes_per_second: int = 1024
    idle_seconds: float = 75  # of a kept-alive tenant connection
    asks_again_seconds: float = 3  # after an answer; until then an ending worker listens to it
    linger_seconds: float = 2  # reading on after an early refusal, so that it arrives
    connections: int = 10_000

    connect_seconds: float = 2
    first_byte_seconds: float = 60
    between_bytes_seconds: float = 60
    total_seconds: float = 580  # below the clients' own 600; no caller may name a later deadline
    answer_bytes: int = 32 * MIB  # of an answer that is not streamed
    event_bytes: int = 4 * MIB  # of one streamed event
    tries: int = 2
    relayed: int = 32  # requests to web at once, of paths that are not inference
    relayed_of_a_tenant: int = 2
    relayed_seconds: float = 15
    relayed_bytes: int = 8 * MIB  # of an answer
    judge_calls: int = 64  # of one judge at once
    judge_waiting: int = 1000  # beyond those; more are not judged
    judge_bytes: int = 64 * MIB  # of all questions to one judge, pictures among them
    judge_answer_bytes: int = 64 * KIB
    judge_calm_seconds: float = 10  # of answers, before one that failed is said to be back
    continuations: int = 2  # of one answer, on other replicas
    token_id_bytes: int = MIB  # kept of one answer to go on from, as text; beyond, it is not
    retry_ratio: float = 0.1  # of calls that may be tried again
    retry_burst: float = 10  # of them at once, of all processes together
    retry_exchange_seconds: float = 1  # what one process has earned and others need
    pooled_idle_seconds: float = 4  # engines close theirs after 5

    buffer_bytes: int = MIB  # per streamed call, for a tenant slower than its engine
    slow_client_seconds: float = 30
    keep_alive_seconds: float = 15

    waiting_calls: int = 200  # per set of deployments, which routes may share
    waiting_seconds: float = 10
    yields: int = 2  # of a batch call, to interactive ones that waited for long
    interactive_token_seconds: float = 0.1  # slower than that, batch gets less of the engine
    slot_exchange_seconds: float = 0.1  # between processes, while something changes
    service_exchange_seconds: float = 0.1  # what tenants had, between processes, while calls wait
    slot_renewal_seconds: float = 1  # and while nothing does
    cold_start_seconds: float = 300  # for a model that loads, where the route says nothing
    cold_start_whole_seconds: float = 55  # of those, a call that is not streamed
    loading_retry_seconds: float = 5
    hindered_retry_seconds: float = 30  # for a model that cannot start, nobody knows until when
    counters_seconds: float = 0.5  # an answer of the shared counters
    lease_seconds: float = 10
    lease_bundles: int = 4096  # sets of limits whose leases are remembered
    money_seconds: float = 0.2  # for credit, of a call that finds none leased
    money_retry_seconds: float = 0.02  # within them, while other processes give back
    money_idle_seconds: float = 15  # before leased credit that no call asks for goes back
    money_dry_seconds: float = 1  # for which an empty budget is not asked again
    money_lean_seconds: float = 10  # of leasing no more than calls hold, near a budget's end
    money_close_seconds: float = 2  # to give credit back at the end
    output_tokens_unbounded: int = 32_768  # of a choice with a budget, where nothing bounds it
    output_tokens_expected: int = 1024  # of a choice, where the route names no default
    trusted_proxies: tuple[str, ...] = ()  # networks whose X-Forwarded-For is believed
    strangers_per_minute: int = 60  # requests of one client address without a valid key
    stranger_addresses: int = 10_000  # remembered; the one heard of longest ago is forgotten
    eject_seconds: float = 2  # before a replica that left is probed; doubled each time
    eject_seconds_max: float = 30
    probe_seconds: float = 5  # an engine's answer about its health or its name
    identity_seconds: float = 1  # for new connections, after an engine said who it is
    reused_seconds: float = 0.5  # a kept connection that ends so soon was closed before
    first_byte_failures: int = 3  # in a row, before a replica is ejected
    failures_in_a_row: int = 5  # of calls that it failed in other ways
    stall_seconds: float = 10  # at least, in which nothing moves in an engine that has calls
    deadly_prompts: int = 1000  # remembered of those that were in flight when an engine died
    deadly_prompt_seconds: float = 3600  # that such a death counts against them
    host_death_seconds: float = 10  # engines of one host that die within them died with it
    busy_seconds: float = 1  # an engine that was full gets no retries

    prefix_blocks: int = 2  # of 512 bytes: what a prompt is known by where routes go by prefix

    snapshot_age_seconds_max: float = 24 * 3600
    first_snapshot_seconds: float = 20  # before a worker listens without one; calls wait so long
    identities_stale_seconds: float = 0.3
    drain_seconds: float = 30
    orphan_seconds: float = 120  # that a worker serves without a parent; then it drains
    refused_flush_seconds: float = 5

    spool_bytes: int = 1024 * MIB  # of all processes; beyond it no call begins
    spool_events: int = 2_000_000
    usage_backlog_retry_seconds: float = 30

    slow_first_token_seconds: float = 5  # calls slower than these leave a trace
    slow_call_seconds: float = 60
    refused_traces_per_second: int = 5  # of one process: of calls, and of what became none
    stranger_traces_per_minute: int = 6  # of one process, without a valid key
    failed_logs_per_second: int = 10  # of one process; the others are counted
