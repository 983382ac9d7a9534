"""How the headers of limits are written: each limit's words, with what remains left open (pure)."""

from control.gateway.admission.rules import Check

Names = tuple[bytes, bytes, bytes]  # of the headers with a limit, what remains, when it is full
REQUESTS, TOKENS = (
    (b"x-ratelimit-limit-" + of, b"x-ratelimit-remaining-" + of, b"x-ratelimit-reset-" + of)
    for of in (b"requests", b"tokens")
)
HEADERS: dict[str, Names] = {
    "requests_per_minute": REQUESTS,
    "input_tokens_per_minute": TOKENS,
    "output_tokens_per_minute": TOKENS,
}


def words_of(check: Check) -> bytes:
    """Lines with room for what remains and when it is full again; none of a limit not told of."""
    names = HEADERS.get(check.limit)
    if names is None:
        return b""
    limit, remaining, reset = names
    return b"%b: %d\r\n%b: %%d\r\n%b: %%b\r\n" % (limit, check.units, remaining, reset)
