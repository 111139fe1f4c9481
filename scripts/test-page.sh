#!/usr/bin/env bash
# Opens the live page of a server in a real browser while a save runs, and reads what it shows:
# test-page.sh BINARY. It needs chromium and redis-cli.
set -euo pipefail
binary="$(realpath "$1")"
folder="$(mktemp -d)"
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Nobody else gets the ports while this process lives; it ends with the script.
coproc ports { exec python3 -c '
import sys
sys.path.append(sys.argv[1])
from ports import own_port
print(own_port(), own_port(), flush=True)
sys.stdin.read()' "$(dirname "$0")"; }
read -r port page_port <&"${ports[0]}"
"$binary" serve --port "$port" --metrics-port "$page_port" --dir "$folder/data" --save "" \
    --rdbcompression no --snapshot-bandwidth 200000 >"$folder/log" 2>&1 &
server=$!
ask() { redis-cli -p "$port" "$@" 2>/dev/null || true; }
for _ in $(seq 100); do
    [ "$(ask PING)" != PONG ] || break
    sleep 0.1
done
ask EVAL 'for n = 1, 2000 do redis.call("SET", n, string.rep("x", 1000)) end' 0 >/dev/null
ask BGSAVE >/dev/null
for _ in $(seq 100); do
    ask INFO persistence | grep -q "^current_save_keys_processed:0" || break
    sleep 0.1
done
timeout 60 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$folder/browser" \
    --virtual-time-budget=3000 --dump-dom "http://127.0.0.1:$page_port/" \
    >"$folder/page" 2>/dev/null

shows() {
    grep -qE "$1" "$folder/page" || { echo "test-page: the page lacks: $1" >&2 && exit 1; }
}
shows 'id="state"[^>]*>Port [0-9]+, a primary, up for'
shows 'id="keys">2,000<'
shows 'id="save">[0-9]+ %: .* keys, .* left<'
shows 'id="latency">Last second, turns no longer than'
shows '<td>set</td>'
echo "test-page: all of it holds"
