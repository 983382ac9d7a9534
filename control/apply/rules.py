"""File + what is stored → the plan: named steps, or everything that stands against it."""

from control.apply import flat, prune, references
from control.apply.billing import TERMS
from control.apply.plan import Change, Plan, Seen, Step, Stored, Verb
from control.apply.wanted import KeyEntry, Service, VersionEntry
from control.catalog.rules import IMMUTABLE
from control.checks import Problem

Digests = dict[str, str]  # name in the environment → digest of the secret it holds


def plan(
    service: Service,
    stored: Stored,
    digests: Digests,
    known: tuple[Problem, ...] = (),
    *,
    pruning: bool = False,
) -> Plan:
    """Steps in the order in which they can be carried out; planning again after them gives none.

    With `known` problems of the file, what else stands against it is added to them.
    """
    if found := _problems(service, stored, digests, known, pruning):
        return Plan(problems=found)
    steps = [
        *(_step("tenant", wanted.name, wanted, stored) for wanted in service.tenants),
        *(_step("project", _in(wanted), wanted, stored) for wanted in service.projects),
        *(_key_step(entry, stored, digests) for entry in service.keys),
        *(_model_step(name, stored) for name in service.models),
        *(_version_step(entry, stored, digests) for entry in service.versions),
        *(_step("deployment", wanted.name, wanted, stored) for wanted in service.deployments),
        *(_step("route", wanted.name, wanted, stored) for wanted in service.routes),
        *(_step("price", wanted.subject, wanted, stored) for wanted in service.prices),
        *(_step("cost_rate", wanted.subject, wanted, stored) for wanted in service.cost_rates),
        *(_step("cost_pool", wanted.pool, wanted, stored) for wanted in service.cost_pools),
        *(_step("token_weight", it.subject, it, stored) for it in service.token_weights),
        *(_step("variant", wanted.subject, wanted, stored) for wanted in service.variants),
        *([_step("billing", TERMS, service.billing, stored)] if service.billing else ()),
        *(_step("export", wanted.name, wanted, stored) for wanted in service.exports),
    ]
    return Plan(tuple(steps) + (prune.steps(service, stored) if pruning else ()))


def _problems(
    service: Service, stored: Stored, digests: Digests, known: tuple[Problem, ...], pruning: bool
) -> tuple[Problem, ...]:
    """A field that is odd already is not judged a second time."""
    odd = {problem.field for problem in known}
    found = [
        *references.problems(service, stored, pruning=pruning),
        *_immutable(service, stored),
        *_secrets(service, stored, digests),
    ]
    return (*known, *(problem for problem in found if problem.field not in odd))


def _step(kind: str, name: str, wanted: object, stored: Stored) -> Step:
    seen = stored.get(kind, name)
    if seen is None:
        return Step(Verb.CREATE, kind, name, flat.changes(None, wanted), wanted)
    changes = flat.changes(seen.wanted, wanted)
    if seen.archived or seen.draining:
        return Step(Verb.RESTORE, kind, name, changes, wanted)
    return Step(Verb.CHANGE if changes else Verb.UNCHANGED, kind, name, changes, wanted)


def _in(wanted) -> str:
    return f"{wanted.tenant}/{wanted.name}"


def _model_step(name: str, stored: Stored) -> Step:
    seen = stored.get("model", name)
    if seen is None:
        return Step(Verb.CREATE, "model", name)
    return Step(Verb.RESTORE if seen.archived else Verb.UNCHANGED, "model", name)


def _key_step(entry: KeyEntry, stored: Stored, digests: Digests) -> Step:
    name = _in(entry.wanted)
    seen = stored.get("key", name)
    if seen is None:
        secret = f"from {entry.secret_env}" if entry.secret_env else "made now and shown once"
        changes = (*flat.changes(None, entry.wanted), Change("secret", None, secret))
        return Step(Verb.CREATE, "key", name, changes, entry)
    changes = flat.changes(seen.wanted, entry.wanted)
    if entry.secret_env and digests[entry.secret_env] != seen.digest:
        told = Change("secret", "the stored one, valid 24 h more", f"from {entry.secret_env}")
        return Step(Verb.ROTATE, "key", name, (*changes, told), entry)
    return Step(Verb.CHANGE if changes else Verb.UNCHANGED, "key", name, changes, entry)


def _version_step(entry: VersionEntry, stored: Stored, digests: Digests) -> Step:
    name = f"{entry.model}:{entry.name}"
    seen = stored.get("version", name)
    after = f"from {entry.api_key_env}" if entry.api_key_env else None
    if seen is None:
        told = (Change("engine.api_key", None, after),) if after else ()
        return Step(Verb.CREATE, "version", name, flat.changes(None, entry.content) + told, entry)
    changes = ()
    if seen.digest != digests.get(entry.api_key_env or "", ""):
        changes = (Change("engine.api_key", "the stored one" if seen.digest else None, after),)
    if seen.archived:
        return Step(Verb.RESTORE, "version", name, changes, entry)
    return Step(Verb.CHANGE if changes else Verb.UNCHANGED, "version", name, changes, entry)


def _immutable(service: Service, stored: Stored) -> list[Problem]:
    found = []
    for entry in service.versions:
        name = f"{entry.model}:{entry.name}"
        seen = stored.get("version", name)
        if seen is None or seen.content == entry.content.digest:
            continue
        differing = [change.field for change in flat.changes(seen.wanted, entry.content)]
        what = f"differs from the stored {name} in {', '.join(differing)}; {IMMUTABLE}"
        found.append(Problem(service.paths[f"version {name}"], what))
    return found


def _secrets(service: Service, stored: Stored, digests: Digests) -> list[Problem]:
    """A secret names one key: not one of another key, and none that was revoked."""
    found, used = [], {}
    for entry in service.keys:
        name, digest = _in(entry.wanted), digests.get(entry.secret_env or "")
        if digest is None:
            continue
        path = f"{service.paths[f'key {name}']}.secret_env"
        what = _secret_refusal(entry, stored.get("key", name), digest)
        owner = used.get(digest) or stored.taken.get(digest)
        if owner and owner != name:
            what = f"{entry.secret_env} holds the secret of another key, {owner}: take another"
        if what:
            found.append(Problem(path, what))
        used[digest] = name
    return found


def _secret_refusal(entry: KeyEntry, seen: Seen | None, digest: str) -> str:
    if seen is None or seen.digest == digest or entry.rotate:
        return ""
    return (
        f"{entry.secret_env} holds another secret than the stored key's:"
        " say rotate: true to change it (the old one stays valid for 24 h)"
    )
