"""Secrets that a service.yaml names: read from the environment of whoever applies it."""

from collections.abc import Mapping
from dataclasses import replace

from control.apply.wanted import Service
from control.catalog.rules import upstream_key_problems
from control.checks import Problem
from control.tenancy.rules import secret_problems


def with_secrets(
    service: Service, environment: Mapping[str, str]
) -> tuple[Service, dict[str, str], list[Problem]]:
    """The service with its engines' keys, secrets by their name, and what is wrong with them."""
    problems: list[Problem] = []
    secrets: dict[str, str] = {}

    def take(name: str, path: str) -> str | None:
        if environment.get(name):
            secrets[name] = environment[name]
            return secrets[name]
        problems.append(Problem(path, f"{name} is not set in the environment of weir apply"))
        return None

    for entry in service.keys:
        path = f"{service.paths[f'key {entry.wanted.tenant}/{entry.wanted.name}']}.secret_env"
        if entry.secret_env and (secret := take(entry.secret_env, path)):
            found = secret_problems(path, secret)
            problems += [Problem(path, f"{entry.secret_env} {it.what}") for it in found]
    versions = []
    for entry in service.versions:
        path = service.paths[f"version {entry.model}:{entry.name}"]
        if entry.api_key_env:
            key = take(entry.api_key_env, f"{path}.engine.api_key_env")
            entry = replace(entry, content=replace(entry.content, upstream_key=key))
            problems += [problem.under(path) for problem in upstream_key_problems(entry.content)]
        versions.append(entry)
    return replace(service, versions=tuple(versions)), secrets, problems
