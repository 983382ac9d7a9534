"""Critical errors (Xid) as the driver tells them: whose they are, and what they mean."""

import ctypes
from collections import defaultdict

import pynvml

from engines.nvml import Cards, value

TOLD_MAX = 256  # of one reading; the others are told by the next
_EVENTS = pynvml.nvmlEventTypeXidCriticalError
_ALL_INSTANCES = 0xFFFFFFFF
# What a program did to itself; any other is the card's, its memory's or its driver's doing.
OF_PROGRAMS = {
    13: "a kernel failed",
    31: "a kernel touched memory that was not its own",
    43: "a program stopped after an error of its own",
    45: "a program was ended",
    68: "the video decoder failed",
    109: "a program's context switch took too long",
}
OF_CARDS = {
    48: "uncorrectable memory error",
    62: "the card's microcontroller halted",
    63: "a page of memory was retired, or a row remapped",
    64: "a page of memory could not be retired, or a row not remapped",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    92: "many corrected memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the card's system processor does not answer",
    120: "the card's system processor failed",
    140: "unrecovered memory error",
}


def is_of_the_card(code: int) -> bool:
    """Whether it speaks against the device rather than against what ran on it."""
    return code not in OF_PROGRAMS


def meaning(code: int) -> str:
    return OF_CARDS.get(code) or OF_PROGRAMS.get(code) or "see the driver's list of Xid errors"


class Events:
    """Listens to each card once; what the driver cannot tell is told by nobody."""

    def __init__(self) -> None:
        self._set = None
        self._heard: set[str] = set()

    def forget(self) -> None:
        """The driver has ended, and its event set with it."""
        self._set = None
        self._heard.clear()

    def told(self, cards: Cards) -> dict[str, tuple[int, ...]]:
        """Uuid of a card or a slice → codes since the call before."""
        found: dict[str, list[int]] = defaultdict(list)
        if self._listen(cards):
            for _ in range(TOLD_MAX):
                if (event := self._next()) is None:
                    break
                for uuid in _whose(event, cards):
                    found[uuid].append(int(event.eventData))
        return {uuid: tuple(codes) for uuid, codes in found.items()}

    def _listen(self, cards: Cards) -> bool:
        if self._set is None:
            self._set = value(pynvml.nvmlEventSetCreate)
        if self._set is None:
            return False
        for uuid in cards.handles.keys() - self._heard:
            self._heard.add(uuid)
            value(pynvml.nvmlDeviceRegisterEvents, cards.handles[uuid], _EVENTS, self._set)
        return True

    def _next(self):
        try:
            return value(pynvml.nvmlEventSetWait_v2, self._set, 0)
        except pynvml.NVMLError:
            return None  # a timeout: nothing to tell; a lost card: its reading says so


def _whose(event, cards: Cards) -> list[str]:
    """The slice that it names; all slices of the card, if it names none."""
    try:
        card = pynvml.nvmlDeviceGetUUID(event.device)
    except pynvml.NVMLError:
        address = _address(event.device)
        card = next((u for u, one in cards.handles.items() if _address(one) == address), "")
    slices = {number: uuid for (parent, number), uuid in cards.instances.items() if parent == card}
    if event.gpuInstanceId != _ALL_INSTANCES and event.gpuInstanceId in slices:
        return [slices[event.gpuInstanceId]]
    return list(slices.values()) or [card]


def _address(handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
