#!/usr/bin/env bash
# Draws the sequence diagrams of the documentation anew, each from a lab of its own: docs/img/sequence-NAME.svg, and the
# text behind the line "<!-- sequence: NAME -->" in docs/sequence.md or docs/messages.md. To be run when what the end
# points send changes on purpose; "git diff" then shows what the change did. One more picture is one more row of the
# table, and that line in a page. Sentences around the diagrams are left alone. Arguments: names of rows; none: all.
#
# Variables: UETLAB (the binary; default bin/uetlab of this tree), UETLAB_LATE (examples/late, default bin/late),
# UETLAB_RUNTIME (embedded).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
uetlab=${UETLAB:-$root/bin/uetlab} late=${UETLAB_LATE:-$root/bin/late} runtime=${UETLAB_RUNTIME:-embedded}
pages=("$root/docs/sequence.md" "$root/docs/messages.md")
lab=seq-$$
work=$(mktemp -d)

# Name; topology, with what its end points are set to; what is done to the lab before (or -); what is played: arguments
# of run, or "late OPERATION BYTES HOW-MUCH-LATER" for processes of examples/late; flags of decode --sequence.
table='
message         pair                               -                               broadcast --size 64KiB
loss            pair                               link set host0-host1 loss=3%    broadcast --size 128KiB
trimming        star-8                             -                               incast --size 64KiB        --between host0,host3
hpc-expected    pair {profile: hpc, eager: 16KiB}  -                               late tsend 65536 0s
hpc-unexpected  pair {profile: hpc, eager: 16KiB}  -                               late tsend 65536 10us
hpc-stored      pair {profile: hpc, eager: 16KiB}  -                               late tsend 4096 10us
full-expected   pair {profile: ai-full}            -                               late tsend 65536 0s
full-deferred   pair {profile: ai-full}            -                               late tsend 65536 10us
full-no-match   pair {profile: ai-full}            -                               late tsend 4096 120ms
base            pair {profile: ai-base}            -                               late tsend 65536 10us
read-short      pair {profile: ai-full}            -                               late read 16 0s
read-long       pair {profile: ai-full}            -                               late read 16384 0s
fetch           pair {profile: ai-full}            -                               late fetch 8 0s
write-data      pair {profile: ai-full}            -                               late write 16384 0s
'

die() {
	echo "sequences: $*" >&2
	exit 1
}
quiet() { "$uetlab" "$@" >"$work/out" 2>&1 || {
	cat "$work/out" >&2
	exit 1
}; }
finish() {
	"$uetlab" down "$lab" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# topology "SHIPPED [SETTINGS]": its name, or a file in which end points have the settings.
topology() {
	[[ $1 == *" {"* ]] || {
		echo "$1"
		return
	}
	sed "s/^defaults:/&\n  fep: ${1#* }/" "$root/topologies/${1%% *}.yaml" >"$work/topology.yaml"
	echo "$work/topology.yaml"
}

# soon COMMAND…: waits until it succeeds.
soon() {
	local n
	for n in $(seq 300); do
		"$@" && return
		sleep 0.1
	done
	die "waited too long: $*: $(cat "$work"/captured "$work"/initiator "$work"/target)"
}
# attaching: both processes are on their way to their FEPs, which let them in when the clock goes on.
attaching() { [ -s "$work/capture" ] && grep -q attaching "$work/initiator" && grep -q attaching "$work/target"; }
# settled: the capture has got packets and no more are coming; the lab is at rest.
settled() {
	local before
	before=$(stat -c %s "$work/capture")
	sleep 0.5
	[ "$before" = "$(stat -c %s "$work/capture")" ]
}

# play_late OPERATION BYTES LATER: one process in each node of a pair, set up while the clock is paused.
play_late() {
	local capturing initiator target at=(-op "$1" -size "$2" -after "$3")
	: >"$work/capture"
	quiet clock pause -n "$lab"
	"$uetlab" tcpdump host0-host1 -n "$lab" -w "$work/capture" 2>"$work/captured" &
	capturing=$!
	"$uetlab" exec host0 -T -n "$lab" -- "$late" -peer 10.0.0.2 "${at[@]}" >"$work/initiator" 2>&1 &
	initiator=$!
	"$uetlab" exec host1 -T -n "$lab" -- "$late" -peer 10.0.0.1 "${at[@]}" -target >"$work/target" 2>&1 &
	target=$!
	soon attaching
	sleep 0.5
	quiet clock resume -n "$lab"
	wait "$initiator" && wait "$target" || die "$(cat "$work/initiator" "$work/target")"
	soon settled
	kill -INT "$capturing"
	wait "$capturing" || die "$(cat "$work/captured")"
}

# draw NAME TOPOLOGY BEFORE PLAY FLAGS: one diagram. The time at which a lab stands when a run begins is not the same
# twice, so the last line of the legend, which gives it, is left out.
draw() {
	local name=$1 capture=$work/capture picture=$root/docs/img/sequence-$1.svg page found=
	# shellcheck disable=SC2086 # the columns are words
	{
		quiet up "$(topology "$2")" -n "$lab" --runtime "$runtime"
		[ "$3" = - ] || quiet $3 -n "$lab"
		case $4 in
		late*) play_late ${4#late } ;;
		*) quiet run $4 -n "$lab" --trace "$capture" ;;
		esac
		quiet down "$lab"
		quiet decode "$capture" --sequence $5 --format svg -o "$work/svg"
		"$uetlab" decode "$capture" --sequence $5 >"$work/text"
	}
	sed '/time 0 is/d' "$work/svg" >"$picture"
	for page in "${pages[@]}"; do
		grep -qxF "<!-- sequence: $name -->" "$page" || continue
		found=yes
		awk -v mark="<!-- sequence: $name -->" -v text="$work/text" '
		  $0 == mark {print; getline; print; while ((getline line < text) > 0) if (line !~ /^time 0 is/) print line; skip = 1; next}
		  skip && /^```/ {skip = 0}
		  !skip {print}' "$page" >"$work/page"
		cat "$work/page" >"$page"
	done
	[ "$found" ] || die "no line <!-- sequence: $name --> in ${pages[*]##*/}"
	printf '%-15s %s\n' "$name" "$(wc -l <"$work/text") lines"
}

wanted=" $* "
while IFS= read -r row; do
	[ -n "$row" ] || continue
	# Columns are parted by two blanks or more.
	IFS='|' read -r name topology before play flags < <(sed -E 's/ {2,}/|/g' <<<"$row")
	[ $# = 0 ] || [[ $wanted == *" $name "* ]] || continue
	draw "$name" "$topology" "$before" "$play" "${flags:-}" </dev/null
done <<<"$table"
