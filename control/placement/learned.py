"""What launches of a version taught about the memory that the next one needs."""

from control.models import Version
from control.placement.memory import Held


def held_beside_kv(version: Version) -> dict[str, Held]:
    """Kind of device → the most that launches of the version held there beside their KV cache."""
    found: dict[str, Held] = {}
    for peak in version.peaks.all():
        said = None
        if peak.consumed_bytes is not None:
            said = peak.consumed_bytes + (peak.activation_bytes or 0) + (peak.graph_bytes or 0)
        seen = max(said or 0, peak.beside_kv_bytes or 0)
        before = found.get(peak.device_kind, Held(0, whole=False))
        host_bytes = max(before.host_bytes, peak.host_bytes or 0)
        if seen >= before.bytes and seen:
            found[peak.device_kind] = Held(seen, said is not None, host_bytes)
    return found
