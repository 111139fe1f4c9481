#!/bin/sh
# Servers that save while they are written:   servers.sh MODE IMAGES
# Every dump must be a state that existed (stillframe hunt), and one without load the same as the
# server's memory.
mode=$1 images=$2 bad=0
debug=/sys/kernel/debug/async_fork

wait_for() {
    for _ in $(seq 300); do
        redis-cli -p "$1" ping 2>/dev/null | grep -q PONG && return
        sleep 0.2
    done
    echo "no server on port $1"
    exit 1
}

# A save that is under way refuses another one.
wait_for_save() {
    while redis-cli -p 7001 info persistence | grep -q 'bgsave_in_progress:1'; do sleep 0.2; done
}

# serve PORT DIRECTORY PROGRAM...
serve() {
    port=$1 dir=$2 && shift 2
    mkdir -p "$dir"
    forkmode "$mode" "$@" --port "$port" --dir "$dir" --save "" >"$dir/log" 2>&1 &
    wait_for "$port"
}

try() {
    name=$1 port=$2 dir=$3
    # A heap of some hundred page tables, and a child that takes its time.
    redis-benchmark -p "$port" -q -t set -r 200000 -n 300000 -d 400 -P 64 -c 4 >/dev/null
    for delay in 0 200; do
        [ ! -d $debug ] || echo $delay >$debug/delay_us
        if stillframe hunt --target "127.0.0.1:$port" --dump "$dir/dump.rdb" --images "$images" \
            --keys 4k --for 1200s --patience 600s >"$dir/hunt" 2>&1; then
            echo "ok   $name: $(grep -iE '^[0-9]+ images of|images by' "$dir/hunt" | tr '\n' ';') delay $delay us"
        else
            echo "BAD  $name, delay $delay us" && tail -20 "$dir/hunt" && bad=1
        fi
    done
    [ ! -d $debug ] || echo 0 >$debug/delay_us
}

serve 7001 /tmp/redis redis-server --enable-debug-command yes --loglevel warning
try "redis-server, $mode" 7001 /tmp/redis
wait_for_save
redis-cli -p 7001 bgsave | grep -q started || { echo "BAD  no save begins" && bad=1; }
wait_for_save
mkdir -p /tmp/copy && cp /tmp/redis/dump.rdb /tmp/copy/
redis-server --port 7002 --dir /tmp/copy --save "" --enable-debug-command yes >/dev/null 2>&1 &
wait_for 7002
sleep 1
one=$(redis-cli -p 7001 debug digest) two=$(redis-cli -p 7002 debug digest)
if [ -n "$one" ] && [ "$one" = "$two" ]; then
    echo "ok   the dump holds what the server holds: $one"
else
    echo "BAD  the dump differs: $one $two" && bad=1
fi
redis-cli -p 7002 shutdown nosave
redis-cli -p 7001 shutdown nosave
rm -rf /tmp/redis /tmp/copy

if command -v stillframe >/dev/null; then
    serve 7003 /tmp/stillframe stillframe serve --snapshot fork
    try "stillframe --snapshot fork, $mode" 7003 /tmp/stillframe
    redis-cli -p 7003 shutdown nosave
fi
grep -E 'async_fork|odf' /proc/vmstat
exit $bad
