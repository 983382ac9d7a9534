"""Keys that were revoked later than identities were compiled: values in, values out."""

import msgspec

from control.routes.snapshot import Identities


class Revoked:
    """Told one by one, which takes as long with a hundred thousand keys as with one."""

    def __init__(self) -> None:
        self._versions: dict[int, int] = {}  # of identities that know of it, by key

    def hear(self, words: str) -> None:
        """As `SnapshotPart.tell_revoked` tells it."""
        version, key_id = map(int, words.split())
        self._versions[key_id] = version

    def without(self, identities: Identities) -> Identities:
        """What is known of callers, less the keys of which it does not know yet."""
        version = identities.version
        self._versions = {key: v for key, v in self._versions.items() if v > version}
        if not self._versions:
            return identities
        keys = {
            digest: identity
            for digest, identity in identities.keys.items()
            if identity.key_id not in self._versions
        }
        return msgspec.structs.replace(identities, keys=keys)
