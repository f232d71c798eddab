#!/usr/bin/env bash
# Measures what docs/performance.md tells, and prints it as Markdown tables on standard output. Every line names the
# command behind it. It takes about five minutes on a quiet machine; on a busy one the figures are worth little, so the
# load is printed as well.
#
# Variables: UETLAB (the binary; default bin/uetlab of this tree), ROUNDS (5: repetitions, the median counts).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${UETLAB:-$root/bin/uetlab}
rounds=${ROUNDS:-5}
lab=measure-$$

[ -x "$binary" ] || {
	printf 'measure: there is no %s; say "make build" first\n' "$binary" >&2
	exit 1
}
work=$(mktemp -d)
uetlab=$work/uetlab
cp "$binary" "$uetlab"
finish() {
	local code=$?
	trap - EXIT INT TERM
	"$uetlab" down "$lab" >/dev/null 2>&1 || true
	rm -rf "$work"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

note() { printf 'measure: %s\n' "$*" >&2; }
now() { printf '%s' "${EPOCHREALTIME/[.,]/}"; } # microseconds
median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
# seconds COMMAND…: how long it took, in seconds with two digits.
seconds() {
	local from
	from=$(now)
	"$@" >"$work/out" 2>"$work/err" || {
		cat "$work/err" >&2
		note "failed: $*"
		exit 1
	}
	awk -v us=$(($(now) - from)) 'BEGIN {printf "%.2f\n", us / 1e6}'
}
# field NAME: a number of the JSON in $work/out.
field() { sed -n 's/^ *"'"$1"'": *\([-0-9.e+]*\),\{0,1\}$/\1/p' "$work/out" | head -n 1; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3"; }

# updown TOPOLOGY RUNTIME ROUNDS: rows of bring-up and tear-down.
updown() {
	note "up and down $1 on $2"
	for _ in $(seq "$3"); do
		seconds "$uetlab" up "$1" --name "$lab" --runtime "$2" >>"$work/up"
		seconds "$uetlab" down "$lab" >>"$work/down"
	done
	row "$1, $2: up" "$(median <"$work/up") s" "\`uetlab up $1 --runtime $2\`"
	row "$1, $2: down" "$(median <"$work/down") s" "\`uetlab down\`"
	rm "$work/up" "$work/down"
}

# workload ARGUMENTS…: a row of wall time, speed and fidelity in the lab that is up.
workload() {
	note "run $*"
	for _ in $(seq "$rounds"); do
		seconds "$uetlab" run "$@" -n "$lab" --format json >/dev/null
		printf '%s %s %s %s\n' "$(field wallSeconds)" "$(field packetHops)" "$(field max)" "$(field late)" >>"$work/runs"
	done
	sort -n "$work/runs" | awk -v what="$*" -v runtime="$runtime" '{w[NR] = $1; h[NR] = $2; fct[$3] = 1; late += $4}
	  END {m = int((NR + 1) / 2); for (f in fct) {n++; one = f}
	    printf "| %s, %s | %.2f s | %.0f packet-hops/s; %s; %d late |\n", what, runtime, w[m], h[m] / w[m],
	      n == 1 ? "all " NR " runs " one " ns" : n " DIFFERENT results", late}'
	rm "$work/runs"
}

# cost: processor time and memory of a lab that nobody uses.
cost() {
	note "an idle lab for 10 s"
	local pids from to
	pids=$("$uetlab" ps -n "$lab" | awk 'NR > 1 {print $4}')
	pids="$pids $("$uetlab" ls | awk -v l="$lab" '$1 == l {print $9}')"
	ticks() { for p in $pids; do sed 's/.*) //' "/proc/$p/stat"; done | awk '{n += $12 + $13} END {print n}'; }
	from=$(ticks)
	sleep 10
	to=$(ticks)
	row "idle lab of 14 nodes and its daemon: processor" "$(awk -v t=$((to - from)) -v hz="$(getconf CLK_TCK)" 'BEGIN {printf "%.3f", t / hz / 10}') cores" "over 10 s"
	row "the same: memory (PSS)" "$(for p in $pids; do cat "/proc/$p/smaps_rollup"; done | awk '/^Pss:/ {n += $2} END {printf "%.0f", n / 1024}') MiB" "\`/proc/PID/smaps_rollup\`"
}

printf '%s cores (%s), Linux %s, %s, load %s; uetlab %s\n\n' "$(nproc)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
	"$(uname -r)" "$(go version 2>/dev/null | awk '{print $3}')" "$(cut -d ' ' -f 1-3 /proc/loadavg)" "$("$uetlab" version | awk 'NR == 2 {print $1}')"
printf '| What | Median of %s | Command |\n|---|---|---|\n' "$rounds"
updown fat-tree-2x4 embedded "$rounds"
updown fat-tree-k8 embedded "$(((rounds + 1) / 2))"
runtimes=embedded
if [ "$(id -u)" -eq 0 ] && docker info >/dev/null 2>&1; then
	runtimes="embedded docker"
	updown fat-tree-2x4 docker "$(((rounds + 1) / 2))"
else
	note "no Docker engine for this user: docker is left out"
fi
"$uetlab" up fat-tree-2x4 --name "$lab" --runtime embedded >/dev/null 2>&1
cost
"$uetlab" down "$lab" >/dev/null 2>&1

printf '\n| Workload on fat-tree-2x4 | Wall time, median of %s | Speed and fidelity |\n|---|---|---|\n' "$rounds"
for runtime in $runtimes; do
	"$uetlab" up fat-tree-2x4 --name "$lab" --runtime "$runtime" >/dev/null 2>&1
	workload permutation --size 2MiB --seed 1
	workload allreduce --size 4MiB --seed 1
	"$uetlab" down "$lab" >/dev/null 2>&1
done

# simulate TOPOLOGY ARGUMENTS…: a row of processor time, frames and memory of one process. Others on the machine cost it caches, so the
# least of the rounds is the one to compare with.
simulate() {
	local pid peak=0 least cpu hops i
	note "sim $*"
	for i in $(seq "$rounds"); do
		TIMEFORMAT='%U %S'
		{ time "$uetlab" sim "$1" -- "${@:2}" --format json >"$work/out" 2>"$work/err"; } 2>"$work/times"
		printf '%s %s\n' "$(awk 'END {printf "%.2f", $1 + $2}' "$work/times")" "$(field packetHops)" >>"$work/sims"
	done
	read -r least cpu hops < <(sort -n "$work/sims" | awk '{v[NR] = $1; h = $2} END {print v[1], v[int((NR + 1) / 2)], h}')
	rm "$work/sims"
	# Once more for the memory.
	if [ -x /usr/bin/time ]; then
		peak=$(/usr/bin/time -f %M "$uetlab" sim "$1" -- "${@:2}" 2>&1 >/dev/null | tail -n 1)
	else # what the kernel says was the most, looked at while it runs
		"$uetlab" sim "$1" -- "${@:2}" >/dev/null 2>&1 &
		pid=$!
		while i=$(awk '/^VmHWM:/ {print $2}' "/proc/$pid/status" 2>/dev/null) && [ -n "$i" ]; do
			peak=$i
			sleep 0.02
		done
		wait "$pid"
	fi
	awk -v what="sim $1 -- ${*:2}" -v least="$least" -v cpu="$cpu" -v hops="$hops" -v peak="$peak" 'BEGIN {
	  printf "| %s | %.2f s; %.2f s | %d | %.2f million | %.0f MiB |\n", what, least, cpu, hops, hops / least / 1e6, peak / 1024}'
}

printf '\n| Simulation | CPU (user + system): least; median of %s | Packet-hops | Packet-hops/s of the least CPU | Memory (peak RSS) |\n|---|---|---|---|---|\n' "$rounds"
simulate fat-tree-2x4 permutation --size 2MiB
simulate fat-tree-k8 permutation --size 2MiB
simulate fat-tree-k16 permutation --size 2MiB

# The profile is of a longer run of the same fabric, so that building it does not count.
note "profile"
"$uetlab" sim fat-tree-k8 --cpuprofile "$work/profile" -- permutation --size 16MiB >/dev/null
printf '\n| Where the time of `sim fat-tree-k8 -- permutation --size 16MiB` goes | itself | with what it calls |\n|---|---|---|\n'
go tool pprof -top -nodecount=400 "$uetlab" "$work/profile" 2>/dev/null |
	awk '$2 ~ /^[0-9.]+%$/ && $5 ~ /^[0-9.]+%$/ && n++ < 12 {name = $6; sub(/.*uetlab\/uetlab\//, "", name); printf "| `%s` | %s | %s |\n", name, $2, $5}'

# bench PACKAGES PATTERN [FLAGS…]: rows of benchmarks.
bench() {
	# shellcheck disable=SC2086
	go test -run '^$' -bench "$2" -benchmem "${@:3}" $1 |
		awk '/^pkg:/ {sub(/.*uetlab\/uetlab\//, ""); p = $0}
		     /^Benchmark/ {sub(/^Benchmark/, "", $1); sub(/-[0-9]+$/, "", $1); ns = a = hop = ""
		       for (i = 2; i < NF; i++) {
		         if ($(i + 1) == "ns/op") ns = $i
		         if ($(i + 1) == "allocs/op") a = $i
		         if ($(i + 1) == "ns/hop") hop = " (" $i " ns a packet-hop)"
		       }
		       printf "| %s %s | %s%s | %s |\n", p, $1, ns, hop, a}'
}

# idle PACKAGE TEST WHAT: a row of what a PDC takes when it is idle, as a test prints it.
idle() {
	local bytes
	bytes=$(cd "$root" && go test "$1" -run "^$2\$" -count 1 -v | sed -n 's/.*: \([0-9]*\) bytes for each of .* idle PDCs$/\1/p')
	[ -n "$bytes" ] || {
		note "$2 of $1 does not say what a PDC takes"
		exit 1
	}
	printf '| %s | %s bytes | `go test %s -run %s -v` |\n' "$3" "$bytes" "$1" "$2"
}

note "memory of PDCs"
printf '\n| Memory of an idle PDC | | Command |\n|---|---|---|\n'
idle ./sim TestTenThousandPDCs '10 000 between two end points, both ends counted'
idle ./fep TestMemory '10 000 peers, one PDC to each'

note "benchmarks"
printf '\n| Benchmark (`make bench` has more) | ns/op | allocs/op |\n|---|---|---|\n'
cd "$root"
bench ./wire 'Outer|Flow|Restamp|UETCRC|DecodeSummary'
bench ./wire 'Hot/./^(encode|decode)$'
bench ./fep Message
bench ./fep/cms 'SendAndAck/^(nscc|rccc|nscc[+]rccc)$'
bench ./fep/lb 'PerPacket/^(reps|bitmap)$'
bench ./fep 'Open|PacketWithPDCs' -benchtime 30000x
bench ./switchd 'Forward|Trim'
bench ./switchd 'Choose/^(mix|resilient|flowlet|adaptive)$/v4'
bench './internal/link ./internal/engine' .
bench ./internal/vt 'Queue$/./mix/^(64|4096)$'
bench ./sim 'Fabric/fat-tree-(2x4|k8)'
bench './internal/clock ./internal/ctl ./internal/pktio' .
