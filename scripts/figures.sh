#!/usr/bin/env bash
# Writes the figures of the documentation that follow from the model anew: those of the demonstration in README.md and
# docs/quickstart.md, the simulation in README.md, the picture docs/img/link-failure.svg, and the example in docs/simulator.md. To be run when something
# changes virtual times on purpose; "git diff" then shows what the change did. Sentences around the figures are left alone.
#
# Variables: UETLAB (the binary; default bin/uetlab of this tree), UETLAB_RUNTIME (embedded).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export UETLAB=${UETLAB:-$root/bin/uetlab} UETLAB_RUNTIME=${UETLAB_RUNTIME:-embedded}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

# rows FILE: the results in a table.
rows() { awk '!/^#/ && NF == 10 && $1 ~ /^[0-9]+$/ && $NF == "exact"' "$1"; }
# put FILE FROM TO NEW: the lines of FILE after the first that begins with FROM and before the next that begins with TO
# become those of the file NEW.
put() {
	awk -v from="$2" -v to="$3" -v new="$4" '
	  !done && inside && index($0, to) == 1 {while ((getline line < new) > 0) print line; inside = 0; done = 1}
	  !inside {print}
	  !done && !inside && index($0, from) == 1 {inside = 1}
	  END {if (!done) {print "figures: no " from " in " FILENAME > "/dev/stderr"; exit 1}}' "$1" >"$work/new"
	cat "$work/new" >"$1"
}

bash scripts/demo.sh >"$work/demo"
read -r healthy failed < <(rows "$work/demo" | awk '{printf "%s ", $2} END {print ""}')
# The two runs, each from its "# allreduce" to its "# fidelity".
awk -v w="$work" '/^# allreduce/ {n++; on = 1} on {print > (w "/run" n)} /^# fidelity/ {on = 0}' "$work/demo"
at=$(sed -n 's/^\$ uetlab link fail leaf0-spine0 --at +\([0-9]*\)us$/\1/p' "$work/demo")
sed -i -E "s/^(\\$ uetlab link fail leaf0-spine0 --at \+)[0-9]+us\$/\1${at}us/" README.md
put README.md '$ uetlab run allreduce' '```' "$work/run2"
put docs/quickstart.md '# allreduce' '```' <(tail -n +2 "$work/run1")
read -r retx drops < <(rows "$work/run2" | awk '{print $8, $9}')
ratio=$(rows "$work/run1" | awk '{printf "%.1f", ($4 - 1) * 100}')
sed -i -E "s/^It took [0-9.]+ us of the fabric's time, [0-9.]+ %/It took $healthy us of the fabric's time, $ratio %/
  s/^(uetlab link fail leaf0-spine0 --at \+)[0-9]+us\$/\1${at}us/
  s/^(Now break something. The failure is armed for the next run, )[0-9]+ us/\1$at us/
  s/^     4194304 +[0-9.]+ .* [1-9][0-9]* +[1-9][0-9]* +exact\$/$(rows "$work/run2")/
  s/^Still correct, but [0-9]+ frames were dropped and [0-9]+ packets/Still correct, but $drops frames were dropped and $retx packets/" docs/quickstart.md

# The simulation equals the demonstration to the nanosecond, and its trace needs no lab.
"$UETLAB" sim fat-tree-2x4 --link "leaf0-spine0 fail at=+${at}us" --trace "$work/trace.pcapng" --links leaf0-spine0,leaf0-spine1 -- \
	allreduce --size 4MiB --check >"$work/sim" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
[ "$(rows "$work/sim")" = "$(rows "$work/run2")" ] || {
	printf 'figures: the simulation is not the demonstration:\n%s\n%s\n' "$(rows "$work/sim")" "$(rows "$work/run2")" >&2
	exit 1
}
"$UETLAB" decode --format json "$work/trace.pcapng" | awk -v healthy="$healthy" -v failed="$failed" -v at="$at" -v work="$work" '
  /^    "timeNs":/ {t = $2 + 0; again = 0}
  /^    "interface":/ {from = $2; to = $4}
  /^    "length":/ {bytes = $2 + 24}
  /^    "summary":/ {
    if (/ RETX / && !resent) resent = t / 1000
    if (from ~ /leaf0:/) {lane = to ~ /spine0:/ ? 0 : 1; sum[lane, int(t / step)] += bytes * 8}
  }
  function x(us) {return 96 + us * 1000 / all * 834}
  function bars(lane, floor,   i, d) {
    for (i = 0; i < bins; i++) if (sum[lane, i] > 0)
      d = d sprintf("M%.1f %.1fh%.1fV%dh-%.1fz", 96 + i * wide, floor - sum[lane, i] / step * 0.1905, wide * 0.87, floor, wide * 0.87)
    return d
  }
  function mark(us, class, bold, name, anchor, off, note) {
    printf "  <path class=\"mark\" d=\"M%.1f 340 V556\"/>\n", x(us)
    printf "  <text class=\"%s\" x=\"%.0f\" y=\"572\" text-anchor=\"%s\" font-weight=\"600\">%s</text>", class, x(us) + off, anchor, name
    printf "<text class=\"%s small\" x=\"%.0f\" y=\"589\" text-anchor=\"%s\">%s</text>\n", class, x(us) + off, anchor, note
  }
  BEGIN {bins = 130; all = (int(failed / 100) + 1) * 1e5; step = all / bins; wide = 834 / bins}
  END {
    for (lane = 0; lane < 2; lane++) {
      floor = 432 + 110 * lane
      printf "  <path class=\"grid\" d=\"M96 %.1f H930\"/><text class=\"dim small\" x=\"88\" y=\"%.1f\" text-anchor=\"end\">200</text>\n", floor - 38.1, floor - 34.1
      printf "  <path class=\"grid\" d=\"M96 %.1f H930\"/><text class=\"dim small\" x=\"88\" y=\"%.1f\" text-anchor=\"end\">400</text>\n", floor - 76.2, floor - 72.2
      printf "  <text class=\"ink\" x=\"16\" y=\"%d\">to spine%d</text>\n  <path class=\"b%d\" d=\"%s\"/>\n  <path class=\"axis\" d=\"M96 %d H930\"/>\n", floor - 4, lane, lane, bars(lane, floor), floor
    }
    near = resent > at && x(resent) - x(at) < 140
    mark(at, "bad", 1, "link fails", near ? "end" : "start", near ? -4 : 4, "+" at " µs")
    if (failed > at + 600) mark(at + 500, "dim", 1, "routes around it", "middle", 0, "after 500 µs")
    if (resent > at) mark(resent, "good", 1, "sent again", near ? "start" : "end", near ? 4 : -4, sprintf("+%.0f µs", resent))
    printf "  <path class=\"mark\" d=\"M%.1f 340 V556\"/>\n", x(failed)
    printf "  <text class=\"ink\" x=\"930\" y=\"572\" text-anchor=\"end\" font-weight=\"600\">ends correct</text><text class=\"ink small\" x=\"930\" y=\"589\" text-anchor=\"end\">+%s µs</text>\n", failed
    printf "  <text class=\"dim small\" x=\"%.0f\" y=\"410\" text-anchor=\"middle\">nothing can cross this link any more</text>\n", x(failed > at + 600 ? at + 250 : (at + failed) / 2)
    printf "  <rect class=\"b1\" x=\"96\" y=\"608\" width=\"%.1f\" height=\"12\" rx=\"2\"/><text class=\"ink small\" x=\"%.1f\" y=\"619\">%s µs: the same allreduce with no failure. Both figures are the same in every run, to the nanosecond.</text>\n", x(healthy) - 96, x(healthy) + 8, healthy
  }' >"$work/lanes"
picture=docs/img/link-failure.svg
{
	sed -E "s/it ends correct at [0-9.]+ microseconds/it ends correct at $failed microseconds/; /What leaf0 sends, Gb/q" "$picture"
	cat "$work/lanes"
	echo '</svg>'
} >"$work/svg" && cat "$work/svg" >"$picture"

"$UETLAB" sim fat-tree-2x4 --link 'leaf0-spine0 fail at=+30us' -- permutation --size 2MiB --check >"$work/example"
put docs/simulator.md '$ uetlab sim fat-tree-2x4 --link '"'leaf0-spine0 fail" '```' "$work/example"
"$UETLAB" sim fat-tree-k16 -- permutation --size 2MiB >"$work/large"
put README.md '$ uetlab sim fat-tree-k16' '```' "$work/large"
printf 'healthy %s us; with the failure %s us, %s packets sent again, %s frames dropped. See git diff.\n' "$healthy" "$failed" "$retx" "$drops"
