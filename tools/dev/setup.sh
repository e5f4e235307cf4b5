# shellcheck shell=bash
# Installs what is missing, by name: Debian packages with apt, Python packages into .venv. Sourced by ./x; everything it prints
# goes to stderr. Invariant: when nothing is missing it only reads (dpkg-query once, one stamp per pip set) and takes milliseconds.

# Fills apt_wanted and pip_wanted with the packages of the sets named.
read_wanted() {
  apt_wanted=() pip_wanted=()
  local kind set name rest
  while read -r kind set name rest; do
    [[ " $* " == *" $set "* ]] || continue
    case $kind in
      apt) apt_wanted+=("$name") ;;
      pip) pip_wanted+=("$name") ;;
    esac
  done <tools/dev/packages.txt
}

# Fills apt_missing with those of apt_wanted that dpkg does not call installed.
find_missing_apt() {
  apt_missing=()
  local installed name
  installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status} ' "${apt_wanted[@]}" 2>/dev/null || true)"
  for name in "${apt_wanted[@]}"; do
    [[ $installed == *" $name=installed "* ]] || apt_missing+=("$name")
  done
}

install_apt() {
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    # sudo counts only if it can work: without a password, or with somebody at the terminal to type it.
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 ]]; }; then
      as_root=(sudo)
    else
      say "${#apt_missing[@]} Debian packages are missing and neither root nor sudo is at hand; run this as root, then ./x again:"
      printf 'apt-get update && apt-get install --no-install-recommends -y %s\n' "${apt_missing[*]}" >&2
      return 1
    fi
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  say "apt: installing ${#apt_missing[@]} packages: ${apt_missing[*]}"
  "${apt[@]}" update >&2 || say "apt: update failed; trying with the lists at hand"
  # apt's own lines are long; one in twenty shows that it moves, errors are shown whole.
  if ! "${apt[@]}" install --no-install-recommends "${apt_missing[@]}" 2>&1 | progress_lines 'Setting up|Unpacking|Preparing|Selecting|Get:|debconf: delaying' >&2; then
    say "apt could not install: ${apt_missing[*]}"
    say "see the lines above; these names are of Debian 12 (this machine: $(. /etc/os-release && echo "$PRETTY_NAME"))"
    return 1
  fi
}

# Passes stdin on, but of the lines that match $1 only every twentieth, and of apt's indented lists of names nothing.
progress_lines() {
  local line count=0
  while IFS= read -r line; do
    if [[ $line =~ ^($1) ]]; then
      ((++count % 20)) || printf '  [%d] %s\n' "$count" "$line"
    elif [[ $line != " "* && $line != *": (Reading database "* && $line != "(Reading database "* ]]; then
      printf '  %s\n' "$line"
    fi
  done
}

# $1: set. The stamp holds the list that was installed; a changed list installs again.
install_pip() {
  local stamp=.venv/installed-$1
  if [[ ! -x .venv/bin/pip ]]; then
    say "pip: making the Python environment .venv"
    rm -rf .venv
    /usr/bin/python3 -m venv .venv >&2
  fi
  ((${#pip_wanted[@]})) || return 0
  say "pip: installing into .venv: ${pip_wanted[*]}"
  .venv/bin/pip install --disable-pip-version-check --progress-bar off "${pip_wanted[@]}" >&2
  printf '%s\n' "${pip_wanted[*]}" >"$stamp"
}

# setup SET...: installs the sets; 0 when all is there.
setup() {
  local set sets="$*"
  read_wanted $sets
  find_missing_apt
  if ((${#apt_missing[@]})); then
    install_apt || return 1
    find_missing_apt
    ((${#apt_missing[@]} == 0)) || { say "apt ended without error but these are missing: ${apt_missing[*]}"; return 1; }
  fi
  for set in $sets; do
    read_wanted "$set"
    [[ -x .venv/bin/pip ]] && { ((${#pip_wanted[@]} == 0)) || stamp_is ".venv/installed-$set" "${pip_wanted[*]}"; } && continue
    install_pip "$set" || { say "pip failed for set $set; see the lines above"; return 1; }
  done
}

stamp_is() {
  [[ -r $1 ]] && [[ $(<"$1") == "$2" ]]
}
