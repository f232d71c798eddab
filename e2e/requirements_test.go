package e2e

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/capture/pcapfile"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// Requirements of the specification pages on real labs: what passed the veth pairs is captured and read. The figures are
// the standard's; where a requirement speaks of durations, numbers of frames stand for them.

// labOf brings up the lab of a topology file.
func labOf(t *testing.T, text string) *lab {
	t.Helper()
	needRoot(t)
	file := filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return up(t, file)
}

// seen is a captured frame.
type seen struct {
	from string // node that sent it
	due  int64  // virtual ns at which its last bit arrived
	b    []byte
}

// frames reads a capture.
func frames(t testing.TB, file string) (list []seen) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapfile.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		p, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatal(err)
		}
		if !p.Timed || p.Comment != "" || len(p.Data) != p.Len {
			t.Fatalf("packet %d: %d of %d bytes, %q", len(list), len(p.Data), p.Len, p.Comment)
		}
		from, _, _ := strings.Cut(p.Iface, ":")
		list = append(list, seen{from, p.Time, append([]byte(nil), p.Data...)})
	}
}

// captured runs a workload and gives the frames that passed links meanwhile, by link.
func (l *lab) captured(t testing.TB, links []string, run ...string) (map[string][]seen, workload.Result) {
	t.Helper()
	type capt struct {
		p    *process
		file string
	}
	var list []capt
	l.settle(t)
	for _, k := range links {
		p, file := l.capture(t, k)
		list = append(list, capt{p, file})
	}
	before := l.counters(t)
	res := l.run(t, run...)
	l.clockTo(t, "pause") // PDCs would close meanwhile
	gained := minus(l.counters(t), before)
	all := map[string][]seen{}
	for i, k := range links {
		id, _, err := l.plan.FindLink(k)
		if err != nil {
			t.Fatal(err)
		}
		var ends []string
		for _, e := range []topology.End{l.plan.Links[id].A, l.plan.Links[id].B} {
			ends = append(ends, l.plan.Nodes[e.Node].Name+" "+l.plan.Nodes[e.Node].Ports[e.Port].Name)
		}
		stop(t, list[i].p, list[i].file, sent(gained, ends...))
		all[k] = frames(t, list[i].file)
	}
	l.clockTo(t, "resume")
	return all, res
}

// cut says whether a frame was trimmed, by its code point.
func (l *lab) cut(b []byte) bool {
	d := b[wire.EthLen+1] >> 2
	return d == l.plan.DSCP.Trimmed || d == l.plan.DSCP.LastHop
}

// TRIM-01: what finds no room goes on as a trimmed packet of the configured size. TRIM-02 and TRIM-07 have tests of
// their own for what is in it.
func TestTRIM01_SizeOnTheWire(t *testing.T) {
	l := sharedLab(t)
	size := l.plan.Nodes[nodeID(t, l, "leaf0")].Switch.Trim.Size
	got, res := l.captured(t, []string{"host0-leaf0"}, "incast", "--size", "256KiB", "--check")
	trimmed := 0
	for _, f := range got["host0-leaf0"] {
		if l.cut(f.b) {
			trimmed++
			if len(f.b) != size {
				t.Errorf("a trimmed frame of %d bytes, not %d: % x", len(f.b), size, f.b)
			}
		}
	}
	t.Logf("%d of %d frames trimmed to %d bytes", trimmed, len(got["host0-leaf0"]), size)
	if trimmed == 0 || uint64(trimmed) != res.Trims || res.Drops != 0 {
		t.Errorf("%d trimmed frames arrived, the switches trimmed %d and dropped %d", trimmed, res.Trims, res.Drops)
	}
}

// TRIM-02: length and checksum of IP fit what is left of a trimmed packet; the length in the UDP header is that of the whole
// packet, as its retransmission shows.
func TestTRIM02_LengthsOnTheWire(t *testing.T) {
	l := sharedLab(t)
	got, _ := l.captured(t, []string{"host0-leaf0"}, "incast", "--size", "256KiB")
	type packet struct {
		src [4]byte
		pdc uint16
		psn wire.PSN
	}
	udp := map[packet]int{} // UDP length of trimmed packets
	again := 0
	for _, f := range got["host0-leaf0"] {
		ip, err := wire.ParseIPv4(f.b[wire.EthLen:])
		if err != nil || !ip.ChecksumOK() || ip.TotalLen() != len(f.b)-wire.EthLen && len(f.b) > 60 {
			t.Fatalf("IP header does not fit a frame of %d bytes: %v: % x", len(f.b), err, f.b[:min(64, len(f.b))])
		}
		in, err := wire.ParseUET(f.b, 0)
		if err != nil || !in.Type().IsRequest() {
			continue
		}
		r, err := wire.ParseRequest(in.UET)
		if err != nil {
			t.Fatalf("a request without its header: %v: % x", err, f.b)
		}
		k, n := packet{[4]byte(ip[12:16]), r.SPDCID(), r.PSN()}, int(f.b[wire.EthLen+24])<<8|int(f.b[wire.EthLen+25])
		if l.cut(f.b) {
			udp[k] = n
			if n <= len(f.b) {
				t.Errorf("a trimmed frame of %d bytes has a UDP length of %d", len(f.b), n)
			}
			continue
		}
		if want, trimmed := udp[k]; trimmed {
			again++
			if n != want {
				t.Errorf("PSN %v: UDP length %d, %d when it was trimmed", k.psn, n, want)
			}
			delete(udp, k)
		}
	}
	if again == 0 || len(udp) != 0 {
		t.Errorf("%d trimmed packets came again whole, %d did not", again, len(udp))
	}
}

// TRIM-07: between switches trimmed packets have one code point, those trimmed on the last hop another.
func TestTRIM07_CodePointsOnTheWire(t *testing.T) {
	l := sharedLab(t)
	got, _ := l.captured(t, []string{"host0-leaf0", "leaf0-spine0", "leaf0-spine1"}, "incast", "--size", "512KiB")
	count := func(link string) map[uint8]int {
		n := map[uint8]int{}
		for _, f := range got[link] {
			if l.cut(f.b) {
				n[f.b[wire.EthLen+1]>>2]++
			}
		}
		return n
	}
	last, spine0, spine1 := count("host0-leaf0"), count("leaf0-spine0"), count("leaf0-spine1")
	t.Logf("to the end point %v, from the spines %v and %v", last, spine0, spine1)
	d := l.plan.DSCP
	if spine0[d.LastHop]+spine1[d.LastHop] != 0 || last[d.LastHop] == 0 {
		t.Errorf("code point of the last hop: %d packets to the end point, %d and %d between switches", last[d.LastHop], spine0[d.LastHop], spine1[d.LastHop])
	}
	if n := spine0[d.Trimmed] + spine1[d.Trimmed]; n == 0 || n != last[d.Trimmed] {
		t.Errorf("%d packets trimmed at the spines, %d of them came to the end point as such", n, last[d.Trimmed])
	}
}

// ECN-03: what is not ECN-capable never becomes CE, though it stands in a queue that marks: this lab has its
// acknowledgements in the class of data, and three end points send to host0 while it waits for acknowledgements of its own.
func TestECN03_NotECTOnTheWire(t *testing.T) {
	l := labOf(t, "name: ecn\nfabric: {kind: star, hosts: 5}\ndefaults:\n  switch: {classes: {46: data}, buffer: 500%, ecn: {kmin: 1B, kmax: 2B}}\n")
	file := filepath.Join(t.TempDir(), "x.cm")
	text := "Nodes 5\nConnections 4\n1->0 id 1 start 0 size 300000\n2->0 id 2 start 0 size 300000\n3->0 id 3 start 0 size 300000\n0->4 id 4 start 0 size 300000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, _ := l.captured(t, []string{"host0-leaf0"}, "matrix", "--file", file)
	ecn := map[string]map[uint8]int{}
	for _, f := range got["host0-leaf0"] {
		kind := "data"
		switch dscp := f.b[wire.EthLen+1] >> 2; {
		case l.cut(f.b):
			continue
		case dscp == l.plan.DSCP.Control:
			kind = "control"
		}
		kind += " from " + f.from
		if ecn[kind] == nil {
			ecn[kind] = map[uint8]int{}
		}
		ecn[kind][f.b[wire.EthLen+1]&3]++
	}
	t.Logf("by ECN bits: %v", ecn)
	if n := ecn["data from leaf0"][wire.ECNCE]; n < 20 || ecn["data from host0"][wire.ECNCE] != 0 {
		t.Errorf("%d packets of data are marked by the switch, %d before it", n, ecn["data from host0"][wire.ECNCE])
	}
	c := ecn["control from leaf0"]
	if c[0] < 20 || len(c) != 1 {
		t.Errorf("acknowledgements behind a queue that marks have ECN bits %v, want only Not-ECT", c)
	}
}

// ECN-04: the port of a leaf to the destination of an incast marks packets, but none of sources that wait for the receiver's credit.
func TestECN04_NoMarksWhereCreditRules(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	marks := func(cc string) (last, marked uint64) {
		t.Helper()
		before := l.counters(t)
		r := l.run(t, "incast", "--size", "256KiB", "--seed", "1", "--check", "--cc", cc, "--lb", "oblivious")
		if r.Trims == 0 {
			t.Errorf("%s: no queue was full", cc)
		}
		marked, _ = congestion(r)
		return minus(l.counters(t), before)["leaf0 eth1 ecn_marked"], marked
	}
	if last, all := marks("nscc"); last < 50 {
		t.Errorf("nscc: %d marks, %d on the last hop: the test shows nothing", all, last)
	}
	if last, all := marks("rccc"); last != 0 {
		t.Errorf("rccc: %d marks, %d on the last hop", all, last)
	}
}

// QOS-04: under load the due times in the trailers of successive frames differ by line bytes / rate.
func TestQOS04_DueTimesOnTheWire(t *testing.T) {
	l := sharedLab(t)
	got, _ := l.captured(t, []string{"host0-leaf0"}, "incast", "--size", "512KiB")
	leaf := l.plan.Nodes[nodeID(t, l, "leaf0")]
	rate := leaf.Ports[l.plan.Nodes[nodeID(t, l, "host0")].Ports[0].PeerIdx].Rate
	var last int64
	exact, idle, ps, bytes := 0, 0, int64(0), 0
	longest := 0 // frames that followed each other without a gap, to the picosecond
	for i, f := range got["host0-leaf0"] {
		if f.from != "leaf0" {
			continue
		}
		line := link.LinePs(len(f.b), rate)
		switch gap := (f.due - last) * 1000; {
		case i == 0 || gap > line+999:
			idle++
			ps, bytes = f.due*1000, 0
		case gap < line-999:
			t.Fatalf("frame %d of %d bytes is due %d ns after the one before: less than the %d ps of line that it takes", i, len(f.b), f.due-last, line)
		default:
			exact++
			ps += line
			bytes++
			longest = max(longest, bytes)
			// Due times are rounded up, so no error adds up however many frames follow each other.
			if d := f.due*1000 - ps; d < -1000 || d > 1000 {
				t.Fatalf("after %d frames in a row a due time is %d ps off", bytes, d)
			}
		}
		last = f.due
	}
	t.Logf("%d frames in a row with their line time, %d after a gap; at most %d in a row", exact, idle, longest)
	if longest < 100 || exact < 500 {
		t.Error("the port was not under load")
	}
}

// ECMP-01: entropy values spread over four paths within 5 %, by the counters of the spines.
func TestECMP01_SpreadOverSpines(t *testing.T) {
	needRoot(t)
	l := up(t, "fat-tree-4x2x4")
	before := l.counters(t)
	l.run(t, "permutation", "--size", "20MiB", "--seed", "1", "--cc", "fixed", "--lb", "spray")
	gained := minus(l.counters(t), before)
	for _, leaf := range []string{"eth1", "eth2"} {
		var paths []uint64
		var total uint64
		for _, spine := range []string{"spine0", "spine1", "spine2", "spine3"} {
			n := gained[spine+" "+leaf+" rx_data_frames"]
			paths, total = append(paths, n), total+n
		}
		t.Logf("data packets from the leaf at %s, by spine: %v", leaf, paths)
		for _, n := range paths {
			if math.Abs(float64(n)*4/float64(total)-1) > 0.05 || total < 8000 {
				t.Errorf("leaf at %s: %d of %d packets took one path of four", leaf, n, total)
			}
		}
	}
}

// PFC-02 without LLR: an incast in the lossless class loses nothing, and end points and leaves were stopped on the way.
func TestPFC02_LosslessIncast(t *testing.T) {
	l := labOf(t, "name: lossless\nfabric: {kind: leaf-spine, spines: 2, leaves: 3}\ndefaults:\n"+
		"  switch: {pfc: {enabled: true}, classes: {10: roce, 12: roce}}\n  fep: {window: 600%}\n")
	before := l.counters(t)
	res := l.run(t, "incast", "--size", "2MiB", "--check")
	gained := minus(l.counters(t), before)
	hosts := sum(gained, func(node, _, counter string) bool { return strings.HasPrefix(node, "host") && counter == "pause_rx" })
	leaves := sum(gained, func(node, _, counter string) bool { return strings.HasPrefix(node, "leaf") && counter == "pause_rx" })
	t.Logf("%d PFC frames stopped end points, %d leaves", hosts, leaves)
	if res.Drops != 0 || res.Trims != 0 || res.Retransmits != 0 || !*res.Correct {
		t.Errorf("%d drops, %d trims, %d retransmits, correct %v", res.Drops, res.Trims, res.Retransmits, *res.Correct)
	}
	if hosts == 0 || leaves == 0 {
		t.Errorf("%d PFC frames to end points, %d to leaves", hosts, leaves)
	}
}
