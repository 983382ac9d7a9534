"""A program that is not Weir's: holds so many bytes of a card until its input ends.

By the driver alone (libcuda), so that nothing but a driver is needed. The card is the one that
CUDA_VISIBLE_DEVICES leaves.
"""

import ctypes
import sys

SUCCESS = 0


def main(count: int) -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    card, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    _call(cuda.cuInit, 0)
    _call(cuda.cuDeviceGet, ctypes.byref(card), 0)
    _call(cuda.cuDevicePrimaryCtxRetain, ctypes.byref(context), card)
    _call(cuda.cuCtxSetCurrent, context)
    _call(cuda.cuMemAlloc_v2, ctypes.byref(memory), ctypes.c_size_t(count))
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()


def _call(function, *arguments) -> None:
    if (code := function(*arguments)) != SUCCESS:
        raise SystemExit(f"{function.__name__} answers {code}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
