"""Children that cannot outlive whoever started them."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def dies_with_us(by: signal.Signals) -> Callable[[], None]:
    """For `preexec_fn`, from the main thread only: the kernel watches the thread that forked."""
    parent = os.getpid()

    def arm() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)  # `nohup` and `&` leave them ignored
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return arm
