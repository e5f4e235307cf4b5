#!/usr/bin/env bash
# Runs ./x in a new minimal Debian 12 root, as a user with a fresh machine would: the proof that setup installs all it needs.
#
# usage: tools/dev/fresh_root.sh DIRECTORY [x arguments...]    e.g. tools/dev/fresh_root.sh build/fresh demo --prompt Hello
# Needs root and debootstrap; takes the package mirror and certificates of this machine. DIRECTORY must not exist yet (it is kept
# afterwards: remove it yourself). What runs is the committed HEAD, not the work tree.
set -euo pipefail

[[ $(id -u) == 0 ]] || { echo "fresh_root: debootstrap and chroot need root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh_root: apt-get install debootstrap" >&2; exit 2; }
(($# >= 1)) || { sed -n '4,6p' "${BASH_SOURCE[0]}" >&2; exit 2; }
[[ ! -e $1 ]] || { echo "fresh_root: $1 exists; name a new directory" >&2; exit 2; }
repository=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
mkdir -p "$1"
root=$(readlink -f "$1")
shift

mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE -m 1 "https?://[^ ]+/debian/?( |$)" || true)
debootstrap --variant=minbase --include=ca-certificates,git bookworm "$root" ${mirror:+"$mirror"} >&2
rm -f "$root/etc/apt/sources.list"
cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/" 2>/dev/null || cp /etc/apt/sources.list "$root/etc/apt/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
git clone -q "$repository" "$root/src"

unmount() {
  umount "$root/proc" || true
  umount -R "$root/dev" || true
}
trap unmount EXIT
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
# Only what says how packages are reached is handed in; everything else is as on a new machine.
mapfile -t keep < <(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|SSL_CERT_FILE=)' || true)
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${keep[@]}" bash -c 'cd /src && exec ./x "$@"' x "$@"
