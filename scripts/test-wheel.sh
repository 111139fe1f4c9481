#!/usr/bin/env bash
# Installs the wheel that scripts/build-wheel.sh made where there is no Rust, and uses both of its
# halves: the binary serves, and the module runs a server and a store.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel="$(echo "$PWD"/python/dist/stillframe-*.whl)"
folder="$(mktemp -d)"
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
server=
python3 -m venv "$folder/venv"
export PATH="$folder/venv/bin:/usr/bin:/bin"
cd "$folder"
pip install -q "$wheel[arrays,redis]"

stillframe serve --port 0 --unixsocket "$folder/socket" --dir "$folder/data" >"$folder/log" 2>&1 &
server=$!
python - "$folder/socket" <<'END'
import os, sys, time

import numpy
import redis

import stillframe

limit = time.monotonic() + 60
while not os.path.exists(sys.argv[1]):
    assert time.monotonic() < limit, "stillframe serve does not serve"
    time.sleep(0.01)
client = redis.Redis(unix_socket_path=sys.argv[1])
assert client.set("key", 1) and client.incr("key") == 2

with stillframe.Server("embedded", save="") as server:
    assert server.client().incr("key") == 1
with stillframe.Store.open("store", {"a": stillframe.ArraySpec("f8", (9,))}) as store:
    store["a"][...] = 1
with stillframe.Store.open("store") as store:
    assert numpy.array_equal(store["a"], numpy.ones(9))
print("the wheel works")
END
