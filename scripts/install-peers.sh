#!/usr/bin/env bash
# Installs the real counterparts that the end-to-end tests compare Stillframe with:
# redis-server, redis-tools (redis-cli, redis-benchmark, redis-check-rdb) and python3-redis;
# strace, which shows that what is acknowledged was synced; and openssl, which makes certificates.
#
# For Debian 12 and its relatives. Safe to run again: it does nothing when all is there.
# The packages' own service is never started, so port 6379 stays free.
set -euo pipefail

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
for tool in redis-cli redis-benchmark redis-check-rdb; do
    command -v "$tool" >/dev/null || { missing+=(redis-tools); break; }
done
# Debian's own interpreter by its path: another python3 may stand before it in PATH.
/usr/bin/python3 -c 'import redis' 2>/dev/null || missing+=(python3 python3-redis)
command -v strace >/dev/null || missing+=(strace)
command -v openssl >/dev/null || missing+=(openssl)

if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install-peers: missing ${missing[*]}, and there is no apt-get here:" \
        "install them with this system's package manager." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "install-peers: missing ${missing[*]}: run it as root, for example" \
        "'sudo scripts/install-peers.sh'." >&2
    exit 1
fi

# Debian asks policy-rc.d before it starts a service; 101 means "not now".
policy=/usr/sbin/policy-rc.d
had_service=no
[ -e /etc/init.d/redis-server ] && had_service=yes
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi

echo "install-peers: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null

# A machine that ignores policy-rc.d may have started the service all the same. A service that
# was there before this script is its owner's business.
if [ "$had_service" = no ]; then
    if [ -d /run/systemd/system ]; then
        systemctl disable --quiet --now redis-server >/dev/null 2>&1 || true
    elif [ -x /etc/init.d/redis-server ]; then
        /etc/init.d/redis-server stop >/dev/null 2>&1 || true
    fi
fi
echo "install-peers: done, $(redis-server --version | cut -d' ' -f1-3)"
