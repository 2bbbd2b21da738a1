# SPDX-License-Identifier: Apache-2.0
# For scripts that prove something on a machine with nothing prepared: a bare Debian of debootstrap, which gets the
# package sources of this machine (apt mirror and proxies, pip indexes and certificates). The script that sources it
# defines prepare_root, and calls with_root. Its own `--inside` is run in the mount namespace.

source scripts/debian.sh

readonly kEnvironment='^(PIP_.*|.*_proxy|.*_PROXY|TERM|LANG)$'
# The certificates that this machine trusts; at a path of its own, since ca-certificates rewrites the usual one.
readonly kHostBundle=/etc/ssl/certs/ca-certificates.crt kBundle=/etc/ssl/host-certificates.crt
readonly kPipFiles=(/etc/pip.conf /etc/xdg/pip/pip.conf ~/.pip/pip.conf ~/.config/pip/pip.conf)

say() { echo "${0##*/}: $*"; }
die() { say "$*" >&2; exit 1; }

# Runs a command, of whose output only the end is shown, if it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { tail <<<"$output" >&2; die "failed: $*"; }
}

# Local folders that pip is told to take packages from.
local_indexes() {
  { cat "${kPipFiles[@]}" 2>/dev/null || true; env | grep '^PIP_' || true; } |
    tr ' =' '\n\n' | sed -n 's|^file://||; s|/simple/*$||; \|^/[^:]*$|p' | sort -u |
    while read -r folder; do [[ ! -d $folder ]] || echo "$folder"; done
}

# Files that pip is told to take limits of versions from.
limits_of_pip() { sed -n 's/^constraint *= *//p' "${kPipFiles[@]}" 2>/dev/null || true; }

# usage: make_root FOLDER RELEASE
make_root() {
  local root=$1 release=$2 from
  from=$(mirror)
  say "debootstrap in $root"
  quietly debootstrap --variant=minbase "$release" "$root" ${from:+"$from"}
  apt-config dump Acquire >"$root/etc/apt/apt.conf.d/90host"
  local file
  # shellcheck disable=SC2046
  for file in /etc/resolv.conf /etc/hosts "${kPipFiles[@]}" $(limits_of_pip); do
    [[ ! -f $file ]] || install -D -m 644 "$file" "$root${file/#$HOME//root}"
  done
  [[ ! -f $kHostBundle ]] || install -D -m 644 "$kHostBundle" "$root$kBundle"
}

# Mounts what a root needs, in a mount namespace of its own, so that nothing stays mounted whatever happens. Afterwards
# "${inside[@]}" runs a command in it.
mount_root() {
  local root=$1 folder environment=()
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  while read -r folder; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
  done < <(local_indexes)
  while IFS='=' read -r -d '' name value; do
    [[ ! $name =~ $kEnvironment ]] || environment+=("$name=$value")
  done < <(env -0)
  [[ ! -f $root$kBundle ]] || environment+=("PIP_CERT=$kBundle" "SSL_CERT_FILE=$kBundle" "REQUESTS_CA_BUNDLE=$kBundle")
  inside=(chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    "${environment[@]}")
}

# usage: install_inside PACKAGE...     Debian packages
install_inside() {
  quietly "${inside[@]}" apt-get -qq update
  quietly "${inside[@]}" DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"
}

# usage: with_root RELEASE ARGUMENT...     Makes a root, lets prepare_root put files into it, and runs this script with
# --inside ROOT ARGUMENT... in a mount namespace.
with_root() {
  local release=$1 root program
  shift
  [[ $(id -u) -eq 0 ]] || die "run as root: chroot and mount need it"
  for program in debootstrap unshare git; do
    command -v "$program" >/dev/null || die "$program is missing"
  done
  root=$(mktemp -d "${TMPDIR:-/tmp}/npugraph-${0##*/}.XXXXXX")
  chmod 755 "$root"
  # shellcheck disable=SC2064
  [[ -n ${KEEP:-} ]] || trap "rm -rf '$root'" EXIT
  make_root "$root" "$release"
  prepare_root "$root"
  unshare --mount --propagation private "scripts/${0##*/}" --inside "$root" "$@"
}
