"""A route of a service.yaml: which members it and its rules have, and their defaults."""

from control.apply.fields import Fields, Findings
from control.checks import Bucket
from control.routes.rules import route_problems
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted


def route(fields: Fields, findings: Findings) -> RouteWanted:
    """Where a default is not named, it is the one of RouteWanted."""
    default = RouteWanted("", ())
    wanted = RouteWanted(
        name=fields.required("name"),
        targets=_targets(fields),
        stop=fields.texts("stop") or (),
        output_tokens_default=fields.whole("output_tokens_default"),
        output_tokens_max=fields.whole("output_tokens_max"),
        note=fields.text("note", ""),
        rules=tuple(_rule(inner) for inner in fields.items("rules")),
        fallback=fields.text("fallback", None),
        policy=fields.text("policy", default.policy),
        on_replica_loss=fields.text("on_replica_loss", default.on_replica_loss),
        priority=fields.text("priority", default.priority),
        deadline_ms=fields.whole("deadline_ms"),
        waiting_seconds=fields.real("waiting_seconds"),
        cold_start_seconds=fields.real("cold_start_seconds"),
        commit_after_seconds=fields.real("commit_after_seconds"),
        progress=fields.flag("progress"),
        shared_prefix=fields.flag("shared_prefix"),
        media_hosts=fields.texts("media_hosts") or (),
        members=fields.texts("members") or (),
        bucket=bucket(fields),
        moderation=_moderation(fields),
        sample=fields.real("sample", default.sample),
    )
    fields.end()
    findings.add_all(fields.path, route_problems(wanted))
    return wanted


def bucket(fields: Fields) -> Bucket | None:
    """Of a route or a deployment."""
    if not fields.has("bucket"):
        fields.mapping("bucket")
        return None
    inner = fields.mapping("bucket")
    wanted = Bucket(
        calls_per_second=inner.real("calls_per_second"),
        tokens_per_second=inner.real("tokens_per_second"),
        burst_seconds=inner.real("burst_seconds", Bucket().burst_seconds),
    )
    inner.end()
    return wanted


def _targets(fields: Fields) -> tuple[TargetWanted, ...]:
    targets = []
    for inner in fields.items("targets"):
        targets.append(TargetWanted(inner.required("deployment"), inner.whole("weight", 100)))
        inner.end()
    return tuple(targets)


def _rule(fields: Fields) -> RuleWanted:
    length = fields.mapping("input_tokens")
    wanted = RuleWanted(
        targets=_targets(fields),
        tenants=fields.texts("tenants") or (),
        priorities=fields.texts("priorities") or (),
        input_tokens_min=length.whole("min"),
        input_tokens_max=length.whole("max"),
        hours=fields.wholes("hours"),
        header=_header(fields),
    )
    length.end()
    fields.end()
    return wanted


def _header(fields: Fields) -> tuple[str, str] | None:
    if not fields.has("header"):
        fields.mapping("header")
        return None
    inner = fields.mapping("header")
    header = (inner.required("name"), inner.required("value"))
    inner.end()
    return header


def _moderation(fields: Fields) -> ModerationWanted | None:
    if not fields.has("moderation"):
        fields.mapping("moderation")
        return None
    inner = fields.mapping("moderation")
    default = ModerationWanted("")
    wanted = ModerationWanted(
        url=inner.required("url"),
        before=inner.flag("before", default.before),
        after=inner.flag("after", default.after),
        timeout_ms=inner.whole("timeout_ms", default.timeout_ms),
        fail_open=inner.flag("fail_open", default.fail_open),
    )
    inner.end()
    return wanted
