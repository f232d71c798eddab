#!/usr/bin/env bash
# Measures what a message costs with --time real, beside libfabric's fi_pingpong (Debian: libfabric-bin) on a veth of the same
# MTU in the same minutes, and what the kernel takes for the packets alone; then `uetlab perf`, which measures from process to
# process, beside fi_pingpong in the same two namespaces by turns. Prints the tables of docs/performance.md. Needs root, Go,
# iproute2, ethtool and nsenter. PART=perf makes the second table only.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-3} mtu=${MTU:-4500}
dir=$(mktemp -d)
a=uetlab-rt-$$-a b=uetlab-rt-$$-b lab=uetlab-rt-$$
cleanup() {
	[ ! -x "$dir/uetlab" ] || "$dir/uetlab" down "$lab" >/dev/null 2>&1 || true
	ip netns del "$a" 2>/dev/null || true
	ip netns del "$b" 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

for tool in fi_pingpong ethtool ip go nsenter; do
	command -v $tool >/dev/null || { echo "scripts/realtime.sh: needs $tool" >&2; exit 1; }
done
part_nodes() {
	go test -c -o "$dir/nodeproc" ./internal/nodeproc
	go test -c -o "$dir/pktio" ./internal/pktio

	ip netns add "$a"
	ip netns add "$b"
	ip -n "$a" link add e0 mtu "$mtu" type veth peer name e0 mtu "$mtu" netns "$b"
	n=1
	for ns in "$a" "$b"; do
		ip -n "$ns" link set lo up
		ip -n "$ns" addr add 10.77.0.$n/24 dev e0
		ip -n "$ns" link set e0 up
		n=2
	done
	sleep 0.5

	# peer NAME PROVIDER TYPE SIZE ITERATIONS: a line "NAME SIZE us/message MB/s"
	peer() {
		timeout 60 ip netns exec "$a" fi_pingpong -p "$2" -e "$3" -d e0 -S "$4" -I "$5" >/dev/null 2>&1 &
		local server=$!
		sleep 0.3
		timeout 60 ip netns exec "$b" fi_pingpong -p "$2" -e "$3" -d e0 -S "$4" -I "$5" 10.77.0.1 2>/dev/null |
			awk -v name="$1" -v size="$4" 'NR == 2 { print name, size, $7, size / $7 }' || true
		wait $server || true
	}
	offload() { for ns in "$a" "$b"; do ip netns exec "$ns" ethtool -K e0 tso "$1" gso "$1" gro "$1" >/dev/null; done; }
	ours() { # PATTERN: lines "uetlab/MTU/KIND SIZE us/message MB/s"
		(cd internal/nodeproc && GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 "$dir/nodeproc" -test.run='^$' -test.bench="$1" -test.benchtime=0.3s) |
			sed -nE 's#^BenchmarkReal/(pingpong|stream)/mtu=([0-9]+)/size=([0-9]+).*[[:space:]]([0-9.]+) MB/s.*[[:space:]]([0-9.]+) us/message.*#uetlab/\2/\1 \3 \5 \4#p'
	}
	kernel() { # lines "kernel/batch SIZE us/frame MB/s"
		(cd internal/pktio && "$dir/pktio" -test.run='^$' -test.bench='TwoThreads/(64|4200|8300)/batch=(1|64)$/look=true' -test.benchtime=0.2s) |
			sed -nE 's#^BenchmarkTwoThreads/([0-9]+)/batch=([0-9]+)/.*[[:space:]]([0-9.]+) MB/s[[:space:]]+([0-9.]+) ns/frame.*#kernel/\2 \1 \4 \3#p' |
			awk '{ print $1, $2, $3 / 1000, $4 }'
	}
	for _ in $(seq "$rounds"); do
		for size in 8 65536 1048576; do
			iters=$((size == 8 ? 20000 : size == 65536 ? 4000 : 400))
			peer tcp tcp msg $size $iters
			peer "tcp;ofi_rxm" "tcp;ofi_rxm" rdm $size $iters
			if [ $size = 8 ]; then peer udp udp dgram $size $iters; fi
		done
		offload off
		peer "tcp,no_offload" tcp msg 65536 2000
		peer "tcp,no_offload" tcp msg 1048576 200
		offload on
		ours 'Real/pingpong/mtu/size=(8|65536|1048576)$'
		ours 'Real/stream/mtu/size=(8|1048576)$'
		kernel
	done >"$dir/lines"

	echo "$(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r), $(go env GOVERSION), load $(cut -d' ' -f1-3 /proc/loadavg); median of $rounds (least, most)"
	echo
	echo "| What | Size | µs a message | MB/s |"
	echo "|---|---|---|---|"
	sort -s -k1,1 -k2,2n -k3,3n "$dir/lines" | awk '
		function out() { if (n) { m = int((n + 1) / 2); printf "| %s | %s | %.1f (%.1f, %.1f) | %.1f |\n", k1, k2, us[m], us[1], us[n], mb[m] } n = 0 }
		$1 != k1 || $2 != k2 { out(); k1 = $1; k2 = $2 }
		{ n++; us[n] = $3; mb[n] = $4 }
		END { out() }'
}

machine() { echo "$(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r), $(go env GOVERSION), load $(cut -d' ' -f1-3 /proc/loadavg); median of $rounds (least, most)"; }

# part_perf has both measure between processes in the two nodes of a lab with real time, over a veth each.
part_perf() {
	CGO_ENABLED=0 go build -o "$dir/uetlab" ./cmd/uetlab
	"$dir/uetlab" up pair --name "$lab" --runtime embedded --time real >/dev/null 2>&1
	local pids
	mapfile -t pids < <("$dir/uetlab" ps -n "$lab" --format json | sed -n 's/^ *"pid": \([0-9]*\),*$/\1/p')
	ip link add pp0 netns "${pids[0]}" mtu "$mtu" type veth peer name pp0 netns "${pids[1]}" mtu "$mtu"
	for i in 0 1; do
		nsenter -t "${pids[i]}" -n ip addr add "10.78.0.$((i + 1))/24" dev pp0
		nsenter -t "${pids[i]}" -n ip link set pp0 up
	done
	sleep 0.5
	fi_pair() { # NAME PROVIDER TYPE SIZE ITERATIONS
		timeout 60 nsenter -t "${pids[0]}" -n fi_pingpong -p "$2" -e "$3" -d pp0 -S "$4" -I "$5" >/dev/null 2>&1 &
		local server=$!
		sleep 0.4
		timeout 60 nsenter -t "${pids[1]}" -n fi_pingpong -p "$2" -e "$3" -d pp0 -S "$4" -I "$5" 10.78.0.1 2>/dev/null |
			awk -v name="$1" -v size="$4" 'NR == 2 { print name, size, $7, size / $7 }' || true
		wait $server || true
	}
	our_lat() { "$dir/uetlab" perf "$1" lat -n "$lab" --size "$2" --iters "$3" --format csv 2>/dev/null | awk -F, -v name="$1" 'NR == 2 { print name, $1, $6, $1 / $6 }' || true; }
	our_bw() { "$dir/uetlab" perf tsend bw -n "$lab" --window 16 --size "$1" --iters "$2" --format csv 2>/dev/null | awk -F, 'NR == 2 && $4 > 0 { mb = $4 * 1.048576; print "window", $1, $1 / mb, mb }' || true; }
	local size iters
	for _ in $(seq "$rounds"); do
		for size in 8 65536 1048576; do
			iters=$((size == 8 ? 3000 : size == 65536 ? 500 : 100))
			fi_pair tcp tcp msg $size $iters
			our_lat tsend $size $iters
			our_lat write $size $iters
			our_bw $size $iters
			if [ $size = 8 ]; then fi_pair udp udp dgram $size $iters; fi
		done
	done >"$dir/perf"
	machine
	echo
	echo "| Size | Between two processes | µs a message | MB/s | Time, that of TCP being 1 |"
	echo "|---|---|---|---|---|"
	sort -s -k2,2n -k1,1 -k3,3n "$dir/perf" | awk '
		function out() { if (n) { m = int((n + 1) / 2); key[++keys] = k2 " " k1; mid[k2 " " k1] = us[m]; text[k2 " " k1] = sprintf("%.1f (%.1f, %.1f) | %.1f", us[m], us[1], us[n], mb[m]) } n = 0 }
		$1 != k1 || $2 != k2 { out(); k1 = $1; k2 = $2 }
		{ n++; us[n] = $3; mb[n] = $4 }
		END {
			out()
			name["tcp"] = "fi_pingpong, tcp"; name["udp"] = "fi_pingpong, udp"; name["tsend"] = "`uetlab perf tsend lat`"
			name["write"] = "`uetlab perf write lat`"; name["window"] = "`uetlab perf tsend bw --window 16`"
			for (i = 1; i <= keys; i++) { split(key[i], k, " "); t = mid[k[1] " tcp"]; printf "| %s | %s | %s | %s |\n", k[1], name[k[2]], text[key[i]], t ? sprintf("%.2f", mid[key[i]] / t) : "-" }
		}'
}

case ${PART:-all} in
perf) part_perf ;;
all) part_nodes; echo; part_perf ;;
*) echo "scripts/realtime.sh: PART is all or perf" >&2; exit 2 ;;
esac
