#!/usr/bin/env bash
# Installs a Debian package in a copy of this machine's files that is thrown away, and runs its
# server as the unit does, as far as that is possible without systemd: as the user stillframe,
# without privileges, on files that are read-only but for those that the unit names. CONFIG REWRITE
# and ACL SAVE must work, and be there after a restart. test-deb.sh PACKAGE, as root.
set -euo pipefail
package="$(realpath "$1")"

if [ -z "${COPY:-}" ]; then
    COPY="$(mktemp -d)"
    export COPY
    trap 'rmdir "$COPY"' EXIT
    unshare --mount --net --pid --fork --kill-child "$0" "$package"
    exit
fi

# All files of the machine below, changes in memory above. No mount outlives this namespace.
mount -t tmpfs none "$COPY"
mkdir "$COPY"/{upper,work,root}
root="$COPY/root"
mount -t overlay none -o "lowerdir=/,upperdir=$COPY/upper,workdir=$COPY/work" "$root"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs none "$root/run"
within() { chroot "$root" "$@"; }
cp "$package" "$root/stillframe.deb"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"

echo "==> installed"
within dpkg --install /stillframe.deb
within stillframe --version
within test -e /usr/share/man/man1/stillframe-serve.1.gz
within systemd-analyze verify /lib/systemd/system/stillframe.service
within systemd-analyze security --offline=true --threshold=30 \
    /lib/systemd/system/stillframe.service | tail -1

# The limits of the unit: what it names is writable, and nothing else.
within install -d -o stillframe -g stillframe -m 750 /run/stillframe
writable=(etc/stillframe var/lib/stillframe run/stillframe)
for folder in "${writable[@]}"; do
    mount --bind "$root/$folder" "$root/$folder"
done
mount -o remount,bind,ro "$root"
mount -o remount,bind,ro "$root/run"
if within touch /etc/nothing 2>/dev/null; then
    echo "test-deb: the files are writable" >&2 && exit 1
fi

server=
serve() {
    within setpriv --reuid stillframe --regid stillframe --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all \
        /usr/bin/stillframe serve /etc/stillframe/stillframe.conf &
    server=$!
    for _ in $(seq 100); do
        [ "$(ask PING)" != PONG ] || return 0
        sleep 0.1
    done
    echo "test-deb: the server does not answer" >&2 && exit 1
}
ask() { within redis-cli -s /run/stillframe/stillframe.sock "$@" 2>/dev/null || true; }
expect() {
    local wanted="$1" found
    shift
    found="$(ask "$@" | tail -1)"
    [ "$found" = "$wanted" ] ||
        { echo "test-deb: $*: '$found' instead of '$wanted'" >&2 && exit 1; }
}

echo "==> under the limits of the unit"
serve
expect OK SET k v
expect OK CONFIG SET maxmemory 123mb
expect OK CONFIG REWRITE
expect OK ACL SETUSER ada on '>lovelace' '~*' +@all
expect OK ACL SAVE
ask BGREWRITEAOF
for _ in $(seq 100); do
    ask INFO persistence | grep -q "^aof_rewrite_in_progress:1" || break
    sleep 0.1
done
ask SHUTDOWN && wait "$server"
serve
expect 128974848 CONFIG GET maxmemory
expect v --user ada --pass lovelace --no-auth-warning GET k
ask SHUTDOWN && wait "$server"
ls -l "$root/etc/stillframe" "$root/var/lib/stillframe"

echo "==> purged"
mount -o remount,bind,rw "$root"
for folder in "${writable[@]}"; do
    umount "$root/$folder"
done
within dpkg --purge stillframe
[ ! -e "$root/etc/stillframe" ] && [ -e "$root/var/lib/stillframe/dump.rdb" ]
echo "test-deb: all of it holds"
