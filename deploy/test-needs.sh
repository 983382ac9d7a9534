#!/bin/sh
# What the tests need beside Python: a browser, a font, a C compiler (for the fake NVML library),
# and what gives tests' hosts networks and firewalls of their own, which takes root.
set -eu
missing=
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && { browser=$name; break; }
done
[ -n "${browser:-}" ] || missing="$missing chromium"
[ -d /usr/share/fonts/truetype/dejavu ] || missing="$missing fonts-dejavu-core"
command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
if [ "$(id -u)" = 0 ]; then
    command -v ip >/dev/null || missing="$missing iproute2"
    command -v nft >/dev/null || missing="$missing nftables"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "make test needs:$missing" >&2
    echo "install them (sudo apt-get install$missing), then run it again" >&2
    exit 1
fi
echo "tests: installing$missing" >&2
log=$(mktemp)
# shellcheck disable=SC2086  # a list of words
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "apt-get could not install$missing (see $log)" >&2
    exit 1
fi
rm -f "$log"
