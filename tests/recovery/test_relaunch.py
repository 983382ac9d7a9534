"""A real process fails for want of memory: what is launched next differs."""

from django.utils import timezone

from control.models import Deployment, Override, Replica


def test_an_engine_without_memory_is_launched_again_with_fewer_calls_at_once(world):
    world.wants(start_failure="out_of_memory")
    first = world.until_state("failed")
    assert first.cause in ("memory_short_at_start", "weights_too_large")
    world.until(Override.objects.first, "the failure is not cured")

    def launched_again() -> Replica | None:
        """Its back-off, which may begin when its processes are gone, is not waited for."""
        Deployment.objects.update(launch_after=timezone.now())
        return Replica.objects.filter(generation=2).exclude(port=None).first()

    again = world.until(launched_again, "nothing is launched again")
    assert Override.objects.first().replica == first
    assert again.slots == 12
    assert first.slots == 16
