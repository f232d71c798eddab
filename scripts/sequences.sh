#!/usr/bin/env bash
# Draws the sequence diagrams of the documentation anew, each from a lab of its own: docs/img/sequence-NAME.svg, and the
# text behind the line "<!-- sequence: NAME -->" in docs/sequence.md. To be run when what the end points send changes on
# purpose; "git diff" then shows what the change did. One more picture is one more row of the table, and that line in the
# page. Sentences around the diagrams are left alone.
#
# Variables: UETLAB (the binary; default bin/uetlab of this tree), UETLAB_RUNTIME (embedded).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
uetlab=${UETLAB:-$root/bin/uetlab}
export UETLAB_RUNTIME=${UETLAB_RUNTIME:-embedded}
page=$root/docs/sequence.md
lab=seq-$$
work=$(mktemp -d)

# Name, topology, what is done to the lab before (or -), the run, and flags of decode --sequence.
table='
message    pair    -                               broadcast --size 64KiB
loss       pair    link set host0-host1 loss=3%    broadcast --size 128KiB
trimming   star-8  -                               incast --size 64KiB        --between host0,host3
'

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

# draw NAME TOPOLOGY BEFORE RUN FLAGS: one diagram. The time at which a lab stands when a run begins is not the same
# twice, so the last line of the legend, which gives it, is left out.
draw() {
	local name=$1 capture=$work/$1.pcapng picture=$root/docs/img/sequence-$1.svg
	quiet up "$2" -n "$lab"
	# shellcheck disable=SC2086 # the columns are words
	{
		[ "$3" = - ] || quiet $3 -n "$lab"
		quiet run $4 -n "$lab" --trace "$capture"
		quiet down "$lab"
		quiet decode "$capture" --sequence $5 --format svg -o "$work/svg"
		"$uetlab" decode "$capture" --sequence $5 >"$work/text"
	}
	sed '/time 0 is/d' "$work/svg" >"$picture"
	awk -v mark="<!-- sequence: $name -->" -v text="$work/text" '
	  $0 == mark {print; getline; print; while ((getline line < text) > 0) if (line !~ /^time 0 is/) print line; skip = found = 1; next}
	  skip && /^```/ {skip = 0}
	  !skip {print}
	  END {if (!found) {print "sequences: no line " mark > "/dev/stderr"; exit 1}}' "$page" >"$work/page"
	cat "$work/page" >"$page"
	printf '%-10s %s\n' "$name" "$(wc -l <"$work/text") lines"
}

while IFS= read -r row; do
	[ -n "$row" ] || continue
	# Columns are parted by two blanks or more.
	IFS='|' read -r name topology before run flags < <(sed -E 's/ {2,}/|/g' <<<"$row")
	draw "$name" "$topology" "$before" "$run" "${flags:-}" </dev/null
done <<<"$table"
