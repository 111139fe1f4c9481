#!/usr/bin/env bash
# Installs the wheel that scripts/build-wheel.sh made where there is no Rust, and uses both of its
# halves: the binary serves, and the module runs a server and a store.
#   scripts/test-wheel.sh [x86_64 | aarch64]
# The wheel for aarch64 runs under qemu-aarch64 (apt-get install qemu-user libc6-arm64-cross): its
# binary, and its module if AARCH64_ROOT is a folder with Debian's python3.11 for arm64 and what it
# needs (dpkg -x).
set -euo pipefail
cd "$(dirname "$0")/.."
machine="${1:-x86_64}"
wheel="$(echo "$PWD"/python/dist/stillframe-*_"$machine".whl)"
folder="$(mktemp -d)"
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
server=
python3 -m venv "$folder/venv"
export PATH="$folder/venv/bin:/usr/bin:/bin"
cd "$folder"

if [ "$machine" = "$(uname -m)" ]; then
    pip install -q "$wheel[arrays,redis]"
    stillframe=(stillframe)
    python=(python)
else
    command -v qemu-aarch64 >/dev/null || {
        echo "!!! SKIPPED: the wheel for aarch64: qemu-aarch64 is missing"
        exit 0
    }
    pip install -q redis
    # redis-py wants async-timeout for Debian's 3.11.2; pip looks at the Python that it runs under.
    pip install -q --target module --only-binary :all: --python-version 3.11 \
        --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
        --platform manylinux_2_28_aarch64 "$wheel[arrays,redis]" async-timeout
    stillframe=(qemu-aarch64 -L /usr/aarch64-linux-gnu module/bin/stillframe)
    python=(qemu-aarch64 -L "${AARCH64_ROOT:-}" "${AARCH64_ROOT:-}/usr/bin/python3.11")
fi

"${stillframe[@]}" serve --port 0 --unixsocket "$folder/socket" --dir "$folder/data" \
    >"$folder/log" 2>&1 &
server=$!
python - "$folder/socket" <<'END'
import os, sys, time

import redis

limit = time.monotonic() + 60
while not os.path.exists(sys.argv[1]):
    assert time.monotonic() < limit, "stillframe serve does not serve"
    time.sleep(0.01)
client = redis.Redis(unix_socket_path=sys.argv[1])
assert client.ping() and client.set("key", 1) and client.incr("key") == 2
END
echo "the binary serves"

if [ "$machine" != "$(uname -m)" ] && [ -z "${AARCH64_ROOT:-}" ]; then
    echo "!!! SKIPPED: the module: AARCH64_ROOT is not set"
    exit 0
fi
PYTHONPATH="$(echo "$folder"/module)" "${python[@]}" - <<'END'
import numpy

import stillframe

with stillframe.Server("embedded", save="") as server:
    assert server.execute("INCR", "key") == 1
    assert server.client().incr("key") == 2
with stillframe.Store.open("store", {"a": stillframe.ArraySpec("f8", (9,))}) as store:
    store["a"][...] = 1
with stillframe.Store.open("store") as store:
    assert numpy.array_equal(store["a"], numpy.ones(9))
END
echo "the module works"
