#!/usr/bin/env bash
# The demonstration: a fabric of 14 nodes, an allreduce over 8 ranks, the same one again with a link that fails in its
# middle, and the counters that tell what the failure cost. The lab has a name of its own and is gone afterwards, however
# this ends. The exit code is 0 only if both results are correct and exact and the failure really cost packets.
#
# Variables: UETLAB (the binary; default bin/uetlab of this tree), UETLAB_RUNTIME (auto, docker or embedded).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=${UETLAB:-$root/bin/uetlab}
lab=demo-$$
link=leaf0-spine0

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || step() { printf '\n%s\n' "$*"; }
show() { printf '$ uetlab %s\n' "$*"; }
fail() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

finish() {
	local code=$?
	trap - EXIT INT TERM
	"$uetlab" down "$lab" >"$work/down" 2>&1 || {
		cat "$work/down" >&2
		[ "$code" -ne 0 ] || code=1
	}
	rm -rf "$work"
	if [ "$code" -eq 0 ]; then step "Taken down; nothing is left. Now yours: docs/quickstart.md"; fi
	exit "$code"
}

[ -x "$binary" ] || fail "there is no $binary; say 'make build' first"
work=$(mktemp -d)
uetlab=$work/uetlab # a copy: a build in the middle must not take the binary away
cp "$binary" "$uetlab" && "$uetlab" version >/dev/null || uetlab=$binary
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export UETLAB_LAB=$lab

# figures FILE: time (us), wrong elements, retransmissions, drops, verdict of the one result in a table.
figures() { awk '!/^#/ && NF >= 10 {print $2, $7, $8, $9, $10}' "$1"; }

# allreduce NAME: runs it, shows the table, and checks that the result is right.
allreduce() {
	local time wrong rest verdict
	show "run allreduce --size 4MiB --ranks 8 --check"
	"$uetlab" run allreduce --size 4MiB --ranks 8 --check --seed 1 >"$work/$1" 2>"$work/$1.err" || {
		cat "$work/$1" "$work/$1.err" >&2
		fail "the $1 run failed"
	}
	cat "$work/$1"
	read -r time wrong rest rest verdict < <(figures "$work/$1") || fail "the $1 run printed no result"
	[ "$wrong" = 0 ] || fail "the $1 run: $wrong elements are wrong"
	[ "$verdict" = exact ] || fail "the $1 run (${time} us) is not exact: $verdict"
}

step "1. A leaf-spine fabric: 2 spines, 4 leaves, 8 end points, 400 Gb/s"
show "up fat-tree-2x4"
"$uetlab" up fat-tree-2x4 --name "$lab" --runtime "${UETLAB_RUNTIME:-auto}" >/dev/null 2>"$work/up" || {
	cat "$work/up" >&2
	fail "the fabric did not come up; '$binary doctor' tells why"
}
tail -n 1 "$work/up"

step "2. An allreduce of 4 MiB over 8 ranks, every element checked"
allreduce first
read -r took _ < <(figures "$work/first")
at=$(awk -v t="$took" 'BEGIN {printf "%d", t / 2}')us

step "3. The same again, and $link fails in its middle"
show "link fail $link --at +$at"
"$uetlab" link fail "$link" --at "+$at" >/dev/null
allreduce second
read -r took2 _ retx drops _ < <(figures "$work/second")
[ "$retx" -gt 0 ] && [ "$drops" -gt 0 ] || fail "the failure cost nothing: $retx retransmissions, $drops drops"

step "4. What the failure cost: where frames were dropped, and who sent them again"
show "link ls; stats; stats NODE"
"$uetlab" link ls | awk -v l="$link" 'NR == 1 || $1 == l'
for node in $("$uetlab" stats | awk 'NR > 1 {print $1}' | uniq); do "$uetlab" stats "$node"; done >"$work/stats"
awk 'NF == 4 && $3 ~ /^drop_/ {printf "  %-7s %-5s %-28s %6d\n", $1, $2, $3, $4; n += $4}
     END {printf "  %-42s %6d\n", "all frames dropped", n}' "$work/stats"
awk 'NF == 3 && $2 ~ /^(retx|rto|dup_rx)$/ {n[$2] += $3}
     END {printf "  %-42s %6d\n  %-42s %6d\n  %-42s %6d\n", "packets sent again (retx)", n["retx"],
       "of them after a timeout (rto)", n["rto"], "data that had arrived already (dup_rx)", n["dup_rx"]}' "$work/stats"
counted=$(awk 'NF == 4 && $3 ~ /^drop_/ {d += $4} NF == 3 && $2 == "retx" {r += $3} END {print d + 0, r + 0}' "$work/stats")
[ "$counted" = "$drops $retx" ] || fail "the counters do not explain the result: $counted drops and retransmissions, not $drops $retx"

step "Both results are correct and exact: ${took} us without, ${took2} us with the failure."
