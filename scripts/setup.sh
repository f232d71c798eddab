#!/usr/bin/env bash
# Installs what building, testing and running uetlab needs, where it is missing, and starts the Docker engine where it is
# installed, does not run and nothing else would start it. Quiet when there is nothing to do.
#
#   scripts/setup.sh           install (Debian and Ubuntu, with apt); elsewhere say what to install
#   scripts/setup.sh --check   only say what is missing
#
# Ends with 1 if something is missing without which uetlab cannot be built, else with 0: the embedded runtime needs
# neither Docker nor any of the tools.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Administrators' programs are not in everybody's PATH, and sudo forgets where Go is.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"

# command | essential | apt | dnf | pacman | what for
tools=(
  "git|yes|git|git|git|version control"
  "make|yes|make|make|make|the Makefile"
  "gcc|no|gcc libc6-dev|gcc|gcc|the race detector (make test-race)"
  "dockerd|no|docker.io|moby-engine|docker|the docker runtime"
  "docker-compose|no|docker-compose|docker-compose|docker-compose|docker-compose.yml"
  "tcpdump|no|tcpdump|tcpdump|tcpdump|uetlab exec NODE -- tcpdump, filter tests"
  "tshark|no|tshark|wireshark-cli|wireshark-cli|capture tests"
  "iperf3|no|iperf3|iperf3|iperf3|host nodes"
  "ping|no|iputils-ping|iputils|iputils|host nodes"
  "ip|no|iproute2|iproute|iproute2|looking into nodes"
  "ethtool|no|ethtool|ethtool|ethtool|looking into nodes"
)

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: 127 if there is no way to.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    return 127
  fi
}

# Whether a tool of the table is there, under its own name or as part of another installation.
present() {
  case $1 in
    dockerd) have dockerd || engine_answers ;;
    docker-compose) have docker-compose || docker compose version >/dev/null 2>&1 ;;
    *) have "$1" ;;
  esac
}

# Go is not installed from apt: distributions' versions are too old.
go_problem() {
  local want got
  want=$(awk '$1 == "go" { split($2, v, "."); print v[1] "." v[2]; exit }' "$here/go.mod")
  if ! have go; then
    echo "Go $want or newer is missing: install it from https://go.dev/dl/"
    return
  fi
  got=$(cd / && go env GOVERSION 2>/dev/null) || got=""
  got=${got#go}
  if [ "$(printf '%s\n%s\n' "$want" "${got:-0}" | sort -V | head -n 1)" != "$want" ]; then
    echo "Go ${got:-of an unknown version} is too old: install $want or newer from https://go.dev/dl/"
  fi
}

engine_answers() {
  local out
  if have docker; then
    out=$(timeout 5 docker version --format '{{.Server.Version}}' 2>&1) && return 0
    # It runs, for others. The docker runtime needs root anyway.
    [[ $out == *"permission denied"* ]]
  else
    have curl && timeout 5 curl -fsS --unix-socket /var/run/docker.sock http://engine/_ping >/dev/null 2>&1
  fi
}

# What will start services here: the name of an init system, or nothing.
init_system() {
  local first
  if [ -d /run/systemd/system ]; then
    echo systemd
    return
  fi
  first=$(cat /proc/1/comm 2>/dev/null || true)
  case $first in
    systemd | init | openrc-init | runit | s6-svscan) echo "$first" ;;
  esac
}

# Starts dockerd with the given flags in the background and waits up to 30 s until it answers.
launch_engine() {
  local log=/var/log/uetlab-dockerd.log i
  # shellcheck disable=SC2016
  as_root sh -c 'log=$1; shift; setsid dockerd "$@" </dev/null >"$log" 2>&1 &' sh "$log" "$@" || return 1
  for ((i = 0; i < 120; i++)); do
    sleep 0.25
    engine_answers && return 0
    # Give it two seconds to write its PID file before its absence means that it ended.
    if ((i >= 8)) && ! grep -qsx dockerd /proc/[0-9]*/comm; then
      break
    fi
  done
  say "dockerd ${*:+$* }does not come up, see $log"
  return 1
}

start_engine() {
  local init
  if [ -n "${DOCKER_HOST:-}" ] || ! have dockerd || engine_answers; then
    return 0
  fi
  init=$(init_system)
  case $init in
    "") ;;
    systemd)
      say "the Docker engine does not run; start it with: sudo systemctl start docker"
      return 0
      ;;
    *)
      say "the Docker engine does not run; start it with: sudo service docker start"
      return 0
      ;;
  esac
  if ! as_root true; then
    say "the Docker engine does not run, and starting it needs root"
    return 0
  fi
  if ! grep -q ' cgroup2\? ' /proc/mounts; then
    as_root mount -t cgroup2 cgroup2 /sys/fs/cgroup || say "no control groups are mounted; dockerd may not start"
  fi
  say "starting dockerd"
  # Nodes have no network of the engine's, so where it cannot set up its bridge it can do without.
  launch_engine || launch_engine --iptables=false --ip6tables=false --bridge=none ||
    say "going on without Docker; the embedded runtime does not need it"
}

# Prints the lines of the table whose tool is missing.
missing_tools() {
  local line
  for line in "${tools[@]}"; do
    present "${line%%|*}" || printf '%s\n' "$line"
  done
}

# Prints column $1 of the lines given on standard input, joined by spaces.
column() { cut -d'|' -f"$1" | paste -sd' ' -; }

install_apt() {
  local packages=$1 p
  local apt=(env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq -y -o DPkg::Lock::Timeout=120)
  if ! as_root true; then
    say "not root and no sudo without a password; as root, run: apt-get install $packages"
    return 0
  fi
  say "installing $packages"
  as_root "${apt[@]}" update >/dev/null || say "apt-get update failed; trying with the lists that are there"
  # Ordinary users capture inside their own namespaces, so dumpcap needs no special rights.
  if [[ " $packages " == *" tshark "* ]] && have debconf-set-selections; then
    echo "wireshark-common wireshark-common/install-setuid boolean false" | as_root debconf-set-selections || true
  fi
  # shellcheck disable=SC2086
  if ! as_root "${apt[@]}" install --no-install-recommends $packages >/dev/null; then
    for p in $packages; do # one that cannot be had must not keep the others out
      as_root "${apt[@]}" install --no-install-recommends "$p" >/dev/null || say "cannot install $p"
    done
  fi
  # Newer Debian has the engine's command line in a package of its own.
  if have dockerd && ! have docker; then
    as_root "${apt[@]}" install --no-install-recommends docker-cli >/dev/null || true
  fi
}

# Says what is missing and ends with 1 if it is essential.
report() {
  local problem=$1 lines=$2 command essential apt what failed=0
  if [ -n "$problem" ]; then
    say "$problem"
    failed=1
  fi
  if [ -n "$lines" ]; then
    while IFS='|' read -r command essential apt _ _ what; do
      if [ "$essential" = yes ]; then
        failed=1
        say "missing, needed: $command ($what)"
      else
        say "missing, optional: $command ($what; package $apt)"
      fi
    done <<<"$lines"
  fi
  return "$failed"
}

main() {
  local check=no lines problem
  case "${1:-}" in
    "") ;;
    --check) check=yes ;;
    -h | --help)
      sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      return 0
      ;;
    *)
      say "unknown argument $1; see --help"
      return 2
      ;;
  esac
  lines=$(missing_tools)
  problem=$(go_problem)
  if [ "$check" = yes ]; then
    if [ -z "$lines$problem" ]; then
      say "nothing is missing"
    fi
    if have dockerd && ! engine_answers; then
      say "the Docker engine does not run"
    fi
    report "$problem" "$lines"
    return
  fi
  if [ -n "$lines" ]; then
    if have apt-get; then
      install_apt "$(column 3 <<<"$lines")"
      lines=$(missing_tools)
    elif have dnf; then
      say "install with: sudo dnf install $(column 4 <<<"$lines")"
    elif have pacman; then
      say "install with: sudo pacman -S --needed $(column 5 <<<"$lines")"
    else
      say "install with this system's package manager (Debian's names): $(column 3 <<<"$lines")"
    fi
  fi
  start_engine
  report "$problem" "$lines"
}

main "$@"
