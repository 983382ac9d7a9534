"""As launches of the fleet are tested."""

from tests.fleet.conftest import world

__all__ = ["world"]  # a fixture
