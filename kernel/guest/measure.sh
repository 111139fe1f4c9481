#!/bin/sh
# Measures a server that saves under load; one line RESULT for each run:
#   measure.sh SYSTEM MEBIBYTES RATE REPEATS WORKLOAD...
# SYSTEM    default, odf, async, async:THREADS: how redis-server forks; stillframe: Stillframe,
#           which does not. With -threads behind it, the server has two threads for sockets
# WORKLOAD  CLIENTS,SET:GET,DISTRIBUTION
system=$1 mib=$2 rate=$3 repeats=$4 && shift 4
keys=$((mib * 1024 * 1024 / 1100))
threads=
case $system in *-threads) threads="--io-threads 2" ;; esac
how=${system%-threads}
case $how in default) how=plain ;; esac

# What the kernel counts, as members of an object.
counts() {
    sed -n 's/^\(async_fork_[a-z]*\|odf_[a-z]*\) \(.*\)/"\1":\2,/p' /proc/vmstat | tr -d '\n'
    for file in /sys/kernel/debug/*_fork/interruptions; do
        [ ! -f "$file" ] ||
            sed -n 's/^\(ns_[a-z]*\) \(.*\)/"\1":\2,/p; s/^below \(.*\) \(.*\)/"below_\1":\2,/p' \
                "$file" | tr -d '\n'
    done
}

saving() {
    redis-cli -p 7001 info persistence | grep -q 'rdb_bgsave_in_progress:1'
}

mkdir -p /tmp/data
if [ "$how" = stillframe ]; then
    stillframe serve --port 7001 --dir /tmp/data --save "" $threads >/tmp/log 2>&1 &
else
    forkmode "$how" redis-server --port 7001 --dir /tmp/data --save "" --rdbcompression no \
        --loglevel warning $threads >/tmp/log 2>&1 &
fi
until redis-cli -p 7001 ping 2>/dev/null | grep -q PONG; do sleep 0.2; done
stillframe load --target 127.0.0.1:7001 --fill --keys $keys --rate 100 --duration 1s \
    >/tmp/fill 2>&1 || { cat /tmp/fill && exit 1; }
for repeat in $(seq "$repeats"); do
    for workload in "$@"; do
        clients=${workload%%,*} rest=${workload#*,}
        for file in /sys/kernel/debug/*_fork/interruptions; do [ ! -f $file ] || echo 0 >$file; done
        before=$(counts)
        stillframe load --target 127.0.0.1:7001 --keys $keys --rate "$rate" --clients "$clients" \
            --ratio "${rest%%,*}" --distribution "${rest##*,}" --bgsave-every 3s --duration 10s \
            --json /tmp/report >/tmp/text 2>/tmp/errors || cat /tmp/errors
        after=$(counts)
        fork=$(redis-cli -p 7001 info stats | sed -n 's/latest_fork_usec:\([0-9]*\).*/\1/p')
        echo "RESULT {\"system\":\"$system\",\"mib\":$mib," \
            "\"workload\":\"$workload\",\"repeat\":$repeat," \
            "\"fork_us\":${fork:-0},\"before\":{${before%,}},\"after\":{${after%,}}," \
            "\"report\":$(sed 's/,"trace":.*/}/' /tmp/report)}"
        while saving; do sleep 0.1; done
    done
done
redis-cli -p 7001 shutdown nosave
