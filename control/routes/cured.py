"""What gateways have to know of overrides: a context or a step that is smaller than asked for."""

from control.models import Deployment

STEP_TOKENS = 2048  # of an engine that was told no number: its least


def context_tokens(row: Deployment) -> int | None:
    return _argument(row, "max_model_len")


def step_tokens(row: Deployment) -> int:
    return _argument(row, "max_num_batched_tokens") or STEP_TOKENS


def _argument(row: Deployment, name: str) -> int | None:
    """The least of what the version says and its overrides do; reads what was prefetched."""
    said = [row.version.arguments.get(name)]
    for override in row.overrides.all():
        if override.dropped_at is None and override.version_id == row.version_id:
            said.append(override.changes.get(name))
    return min((it for it in said if it is not None), default=None)
