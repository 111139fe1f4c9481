#!/usr/bin/env bash
# Installs a Debian package in a copy of this machine's files that is thrown away, and runs its
# server as the unit does, as far as that is possible without systemd: as the user stillframe,
# without privileges, on files that are read-only but for those that the unit names. CONFIG REWRITE
# and ACL SAVE must work, and be there after a restart. test-deb.sh PACKAGE, as root.
set -euo pipefail
package="$(realpath "$1")"
scratch="$(mktemp -d)"

if [ "${IN_COPY:-}" = "" ]; then
    trap 'rm -rf "$scratch"' EXIT
    IN_COPY="$scratch" unshare --mount --net --pid --fork --kill-child "$0" "$package"
    exit
fi
scratch="$IN_COPY"

# All files of the machine below, changes in memory above.
mount -t tmpfs none "$scratch"
mkdir "$scratch"/{upper,work,root}
mount -t overlay none -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
root="$scratch/root"
mount -t proc none "$root/proc"
mount --rbind /dev "$root/dev"
ip link set lo up 2>/dev/null || true
cp "$package" "$root/stillframe.deb"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod 755 "$root/usr/sbin/policy-rc.d"
chroot "$root" dpkg --install /stillframe.deb

echo "==> as installed"
chroot "$root" stillframe --version
chroot "$root" sh -c 'man -w stillframe stillframe-serve 2>/dev/null' || true
chroot "$root" systemd-analyze verify stillframe.service ||
    echo "!!! systemd-analyze does not run here, or has found something: see above"

# The limits of the unit. What it names is writable.
chroot "$root" install -d -o stillframe -g stillframe -m 750 /run/stillframe
mount -t tmpfs none "$root/tmp"
mount -o remount,bind,ro "$root" 2>/dev/null || mount --bind "$root" "$root"
for folder in etc/stillframe var/lib/stillframe run/stillframe; do
    mount --bind "$scratch/root/$folder" "$scratch/root/$folder"
done
mount -o remount,bind,ro "$root"
chroot "$root" sh -c 'touch /usr/x 2>/dev/null' && { echo "the copy is writable" >&2 && exit 1; }

server=
serve() {
    chroot "$root" setpriv --reuid stillframe --regid stillframe --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all \
        /usr/bin/stillframe serve /etc/stillframe/stillframe.conf &
    server=$!
    for _ in $(seq 100); do
        [ "$(ask PING)" = PONG ] && return
        sleep 0.1
    done
    echo "the server does not answer" >&2 && exit 1
}
ask() { chroot "$root" redis-cli -s /run/stillframe/stillframe.sock "$@" 2>/dev/null || true; }
expect() {
    [ "$1" = "$2" ] || { echo "expected '$2', got '$1'" >&2 && exit 1; }
}

echo "==> under the limits of the unit"
serve
expect "$(ask SET k v)" OK
expect "$(ask CONFIG SET maxmemory 123mb)" OK
expect "$(ask CONFIG REWRITE)" OK
expect "$(ask ACL SETUSER ada on '>lovelace' '~*' +@all)" OK
expect "$(ask ACL SAVE)" OK
ask SHUTDOWN
wait "$server"
serve
expect "$(ask CONFIG GET maxmemory | tail -1)" 128974848
expect "$(ask ACL WHOAMI)" default
expect "$(ask --user ada --pass lovelace --no-auth-warning GET k)" v
ask SHUTDOWN
wait "$server"

echo "==> removed and purged"
mount -o remount,bind,rw "$root"
umount "$root"/{etc/stillframe,var/lib/stillframe,run/stillframe}
chroot "$root" dpkg --purge stillframe
[ ! -e "$root/etc/stillframe" ] && [ -e "$root/var/lib/stillframe" ]
echo "test-deb: done"
