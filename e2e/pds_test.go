package e2e

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// Requirements of packet delivery on real labs, as the link of an end point shows them.

// pdsPacket is a UET packet that passed a link.
type pdsPacket struct {
	seen
	in wire.Inbound
	u  []byte // PDS header .. payload
}

func (p *pdsPacket) is(kind func(wire.PDSType) bool) bool { return kind(p.in.Type()) }

func isCtrl(t wire.PDSType) bool { return t == wire.TypeCtrl }

// pdsPackets takes frames apart, in the order in which they arrived.
func pdsPackets(t testing.TB, list []seen) (out []pdsPacket) {
	t.Helper()
	for _, f := range list {
		in, err := wire.ParseUET(f.b, 0)
		if err != nil {
			t.Fatalf("a frame that is not UET: %v: % x", err, f.b)
		}
		u := in.UET
		if !in.Cut && in.DSCP != 34 && in.DSCP != 36 {
			u = u[:len(u)-wire.CRCLen]
		}
		out = append(out, pdsPacket{f, in, u})
	}
	slices.SortStableFunc(out, func(a, b pdsPacket) int { return int(a.due - b.due) })
	return out
}

// pdcKey names the PDC that an initiator's packet belongs to.
type pdcKey struct {
	dst [4]byte
	id  uint16
}

func dstOf(p *pdsPacket) [4]byte { return [4]byte(p.in.IP[16:20]) }
func srcOf(p *pdsPacket) [4]byte { return [4]byte(p.in.IP[12:16]) }

const pdsStar = "name: pds\nfabric: {kind: star, hosts: 4}\n"

var stressed struct {
	once sync.Once
	list []pdsPacket
	res  workload.Result
	gain map[string]uint64
}

// stress is what passed the link of host0 in an alltoall in which one of the other links loses, repeats and reorders. It is run once
// for all tests.
func stress(t *testing.T) []pdsPacket {
	t.Helper()
	needRoot(t)
	stressed.once.Do(func() {
		l := labOf(t, pdsStar)
		l.ok(t, "link", "set", "host1-leaf0", "loss=2%", "duplicate=1%", "reorder=5%,2us")
		before := l.counters(t)
		got, res := l.captured(t, []string{"host0-leaf0"}, "alltoall", "--size", "4MiB", "--iters", "2", "--check", "--seed", "5")
		stressed.list, stressed.res, stressed.gain = pdsPackets(t, got["host0-leaf0"]), res, minus(l.counters(t), before)
	})
	if len(stressed.list) < 1000 || stressed.res.Retransmits < 20 {
		t.Fatalf("%d packets passed, %d were sent again: this is no stress", len(stressed.list), stressed.res.Retransmits)
	}
	return stressed.list
}

// B01: the first packets of a PDC carry SYN, its PDCID, and the distance from its Start_PSN, until an ACK has come.
func TestB01_SYNOnTheWire(t *testing.T) {
	list := stress(t)
	start, ack := map[pdcKey]wire.PSN{}, map[pdcKey]int64{}
	syns, others := 0, 0
	for i := range list {
		p := &list[i]
		if p.is(wire.PDSType.IsAck) && p.from != "host0" {
			a, _ := wire.ParseAck(p.u)
			if k := (pdcKey{srcOf(p), a.DPDCID()}); ack[k] == 0 {
				ack[k] = p.due
			}
		}
		if !p.is(wire.PDSType.IsRequest) || p.from != "host0" {
			continue
		}
		r, err := wire.ParseRequest(p.u)
		if err != nil {
			t.Fatal(err)
		}
		k := pdcKey{dstOf(p), r.SPDCID()}
		s, known := start[k]
		switch {
		case r.SPDCID() == 0 || !known && (!r.SYN() || r.PSNOffset() != 0 || r.PSN() == 0):
			t.Errorf("PDC %x begins with PSN %d, SYN %v, offset %d", k.id, r.PSN(), r.SYN(), r.PSNOffset())
		case !known:
			start[k] = r.PSN()
		case r.SYN() && (r.StartPSN() != s || ack[k] != 0 && ack[k] < p.due-5000):
			t.Errorf("PDC %x: SYN with start %d, not %d, %d ns after the first ACK", k.id, r.StartPSN(), s, p.due-ack[k])
		case !r.SYN() && ack[k] == 0:
			t.Errorf("PDC %x: no SYN in PSN %d, before the first ACK", k.id, r.PSN())
		}
		if r.SYN() {
			syns++
		} else {
			others++
		}
	}
	t.Logf("%d PDCs, %d packets with SYN, %d without", len(start), syns, others)
	if len(start) < 3 || syns < 2*len(start) || others < 100 {
		t.Error("too few packets")
	}
}

// C01: an initiator that has been idle for long closes its PDCs with a Close Command that wants an ACK and has the next PSN.
func TestC01_CloseOnTheWire(t *testing.T) {
	l := labOf(t, pdsStar)
	p, file := l.capture(t, "host0-leaf0")
	before := l.counters(t)
	l.run(t, "sendrecv", "--size", "64KiB")
	gained := func() map[string]uint64 { return minus(l.counters(t), before) }
	closed := func() bool {
		g := gained()
		return g["host0 fep pdc_open"] > 0 && g["host0 fep pdc_close"] == g["host0 fep pdc_open"]
	}
	until(t, "the PDCs of host0 to be closed", closed)
	g := gained()
	stop(t, p, file, sent(g, "host0 eth1", "leaf0 eth1"))
	next, closing := map[uint16]wire.PSN{}, map[uint16]bool{}
	var last int64
	list := pdsPackets(t, frames(t, file))
	for i := range list {
		p := &list[i]
		if p.from != "host0" {
			continue
		}
		switch {
		case p.is(wire.PDSType.IsRequest):
			r, _ := wire.ParseRequest(p.u)
			next[r.SPDCID()], last = r.PSN()+1, p.due
		case p.is(isCtrl):
			c, err := wire.ParseCtrl(p.u)
			if err != nil || c.Ctl() != wire.CtlCloseCommand {
				continue
			}
			closing[c.SPDCID()] = true
			if idle := time.Duration(p.due - last); c.PSN() != next[c.SPDCID()] || !c.AR() || c.RETX() || idle < 2*time.Second || idle > 2*time.Second+time.Millisecond {
				t.Errorf("PDC %x: Close Command with PSN %d, not %d, AR %v, after %v", c.SPDCID(), c.PSN(), next[c.SPDCID()], c.AR(), idle)
			}
		}
	}
	if len(next) == 0 || len(closing) != len(next) {
		t.Errorf("%d PDCs closed of %d", len(closing), len(next))
	}
}

// D23: AR is on the last packet of a message and on every retransmission.
func TestD23_AROnTheWire(t *testing.T) {
	list := stress(t)
	last, again, none := 0, 0, 0
	for i := range list {
		p := &list[i]
		if !p.is(wire.PDSType.IsRequest) {
			continue
		}
		r, _ := wire.ParseRequest(p.u)
		s, err := wire.ParseSESStd(p.u[len(r):])
		if err != nil {
			t.Fatal(err)
		}
		if s.Head().EOM() {
			last++
		}
		if r.RETX() {
			again++
		}
		if !r.AR() {
			none++
			if s.Head().EOM() || r.RETX() {
				t.Errorf("PSN %d has no AR; end of message %v, retx %v", r.PSN(), s.Head().EOM(), r.RETX())
			}
		}
	}
	t.Logf("%d ends of messages, %d retransmissions, %d packets without AR", last, again, none)
	if last < 6 || again < 10 || none < 100 {
		t.Error("too few packets")
	}
}

// E05: CLEAR never falls, and is never above a PSN without an ACK.
func TestE05_ClearOnTheWire(t *testing.T) {
	list := stress(t)
	type pdc struct {
		clear, done wire.PSN // done: every PSN up to it has its ACK
		named       map[wire.PSN]bool
		told        int
	}
	pdcs := map[pdcKey]*pdc{}
	check := func(k pdcKey, clear wire.PSN) {
		q := pdcs[k]
		if q == nil {
			t.Fatalf("PDC %x begins in its middle", k.id)
		}
		if clear.Before(q.clear) || clear.After(q.done) {
			t.Errorf("PDC %x: CLEAR %d after %d, with ACKs up to %d", k.id, clear, q.clear, q.done)
		}
		if clear != q.clear {
			q.told++
		}
		q.clear = clear
	}
	for i := range list {
		p := &list[i]
		switch {
		case p.from == "host0" && p.is(wire.PDSType.IsRequest):
			r, _ := wire.ParseRequest(p.u)
			k := pdcKey{dstOf(p), r.SPDCID()}
			if pdcs[k] == nil {
				pdcs[k] = &pdc{clear: r.StartPSN() - 1, done: r.StartPSN() - 1, named: map[wire.PSN]bool{}}
			}
			check(k, r.ClearPSN())
		case p.from == "host0" && p.is(isCtrl):
			if c, _ := wire.ParseCtrl(p.u); c.Ctl() == wire.CtlClearCommand {
				check(pdcKey{dstOf(p), c.SPDCID()}, wire.PSN(c.Payload()))
			}
		case p.from != "host0" && p.is(wire.PDSType.IsAck):
			a, _ := wire.ParseAck(p.u)
			q := pdcs[pdcKey{srcOf(p), a.DPDCID()}]
			if q == nil {
				continue
			}
			if a.CACK().After(q.done) {
				q.done = a.CACK()
			}
			if !a.P() {
				q.named[a.AckPSN()] = true
			}
			for q.named[q.done+1] {
				q.done++
			}
		}
	}
	told := 0
	for _, q := range pdcs {
		told += q.told
	}
	t.Logf("%d PDCs, %d values of CLEAR", len(pdcs), told)
	if len(pdcs) < 3 || told < 50 {
		t.Error("too few packets")
	}
}

// copiesOf groups the requests that host0 sent by PDC and PSN.
func copiesOf(list []pdsPacket) map[pdcKey]map[wire.PSN][]*pdsPacket {
	all := map[pdcKey]map[wire.PSN][]*pdsPacket{}
	for i := range list {
		p := &list[i]
		if p.from != "host0" || !p.is(wire.PDSType.IsRequest) {
			continue
		}
		r, _ := wire.ParseRequest(p.u)
		k := pdcKey{dstOf(p), r.SPDCID()}
		if all[k] == nil {
			all[k] = map[wire.PSN][]*pdsPacket{}
		}
		all[k][r.PSN()] = append(all[k][r.PSN()], p)
	}
	return all
}

// F01: what a link swallows is sent again after the RTO, with the same PSN and contents, retx and AR.
func TestF01_RTOOnTheWire(t *testing.T) {
	l := labOf(t, pdsStar)
	l.ok(t, "link", "set", "host1-leaf0", "blackhole", "--at", "+0us")
	l.ok(t, "link", "set", "host1-leaf0", "blackhole=off", "--at", "+50us")
	before := l.counters(t)
	got, _ := l.captured(t, []string{"host0-leaf0"}, "sendrecv", "--ranks", "host0,host1", "--size", "20000", "--check")
	gained := minus(l.counters(t), before)
	again := 0
	for _, psns := range copiesOf(pdsPackets(t, got["host0-leaf0"])) {
		for psn, copies := range psns {
			for i, p := range copies {
				r, _ := wire.ParseRequest(p.u)
				if r.RETX() != (i > 0) || r.RETX() && !r.AR() || string(p.u[len(r):]) != string(copies[0].u[12:]) {
					t.Errorf("PSN %d, copy %d: retx %v, AR %v", psn, i, r.RETX(), r.AR())
				}
				if i == 0 {
					continue
				}
				again++
				// Five packets may wait for each other at the port: 1.7 us at 100 Gb/s.
				if d := p.due - copies[0].due - 1e6; math.Abs(float64(d)) > 2000 {
					t.Errorf("PSN %d is sent again %d ns from 1 ms", psn, d)
				}
			}
		}
	}
	if again != 5 || gained["host0 fep retx_rto"] != 5 {
		t.Errorf("%d packets are sent again, %d of them by RTO", again, gained["host0 fep retx_rto"])
	}
}

// F11: a packet that was trimmed is sent again as soon as the NACK is there, with another entropy value.
func TestF11_TrimmedOnTheWire(t *testing.T) {
	l := sharedLab(t)
	got, res := l.captured(t, []string{"host1-leaf0"}, "incast", "--size", "512KiB", "--check", "--cc", "fixed", "--lb", "spray") // else it waits for the window, too
	longest := int64(0)
	told, evs := map[wire.PSN]int64{}, map[wire.PSN]uint16{}
	again := 0
	list := pdsPackets(t, got["host1-leaf0"])
	for i := range list {
		p := &list[i]
		switch {
		case p.from != "host1" && p.is(wire.PDSType.IsNack):
			n, _ := wire.ParseNack(p.u)
			if n.Code() != wire.NackTrimmed && n.Code() != wire.NackTrimmedLastHop || p.in.EV != evs[n.PSN()] {
				t.Errorf("NACK %v of PSN %d with EV %x, sent with %x", n.Code(), n.PSN(), p.in.EV, evs[n.PSN()])
			}
			told[n.PSN()] = p.due
		case p.from == "host1" && p.is(wire.PDSType.IsRequest):
			r, _ := wire.ParseRequest(p.u)
			if at := told[r.PSN()]; r.RETX() && at != 0 {
				again++
				longest = max(longest, p.due-at)
				if p.in.EV == evs[r.PSN()] {
					t.Errorf("PSN %d is sent again with the same EV %x", r.PSN(), p.in.EV)
				}
				delete(told, r.PSN())
			}
			evs[r.PSN()] = p.in.EV
		}
	}
	t.Logf("%d sent again, at most %d ns after the NACK", again, longest)
	// 4 KiB of data have to pass a link of 500 ns, behind at most one packet.
	if again < 20 || len(told) != 0 || longest > 2000 || !*res.Correct {
		t.Errorf("%d sent again, %d not; one took %d ns", again, len(told), longest)
	}
}

// F13, F14 from the side of the target: of every trimmed packet its source is told, with the code for where it was trimmed, with its
// entropy value, and with a mark only if it had one.
func TestF14_TrimCodesOnTheWire(t *testing.T) {
	l := sharedLab(t)
	got, _ := l.captured(t, []string{"host0-leaf0"}, "incast", "--size", "256KiB", "--check")
	type key struct {
		peer [4]byte
		psn  wire.PSN
	}
	want := map[key][]pdsPacket{}
	codes := map[wire.NackCode]int{}
	list := pdsPackets(t, got["host0-leaf0"])
	for i := range list {
		p := &list[i]
		if p.from == "host0" && p.is(wire.PDSType.IsNack) {
			n, _ := wire.ParseNack(p.u)
			k := key{dstOf(p), n.PSN()}
			if len(want[k]) == 0 {
				t.Fatalf("NACK %v for nothing", n.Code())
			}
			cut := want[k][0]
			want[k] = want[k][1:]
			code := wire.NackTrimmed
			if cut.in.DSCP == l.plan.DSCP.LastHop {
				code = wire.NackTrimmedLastHop
			}
			if n.Code() != code || p.in.EV != cut.in.EV || n.M() != (cut.in.ECN == wire.ECNCE) {
				t.Errorf("DSCP %d, ECN %d, EV %x: NACK %v, marked %v, EV %x", cut.in.DSCP, cut.in.ECN, cut.in.EV, n.Code(), n.M(), p.in.EV)
			}
			codes[code]++
		}
		if p.from != "host0" && l.cut(p.b) {
			r, err := wire.ParseRequest(p.u)
			if err != nil {
				t.Fatal(err)
			}
			k := key{srcOf(p), r.PSN()}
			want[k] = append(want[k], *p)
		}
	}
	for k, left := range want {
		if len(left) > 0 {
			t.Errorf("%d trimmed packets of PSN %d without a NACK", len(left), k.psn)
		}
	}
	t.Logf("NACKs by code: %v", codes)
	if codes[wire.NackTrimmed] == 0 || codes[wire.NackTrimmedLastHop] == 0 {
		t.Error("packets were trimmed at one place only")
	}
}

// F17: a link that reorders makes nobody send anything again.
func TestF17_ReorderingOnTheWire(t *testing.T) {
	l := labOf(t, pdsStar)
	l.ok(t, "link", "set", "host1-leaf0", "reorder=10%,1us", "--from", "leaf0") // overtaken by three packets
	got, res := l.captured(t, []string{"host1-leaf0"}, "sendrecv", "--ranks", "host0,host1", "--size", "8MiB", "--check")
	top, late, list := map[uint16]wire.PSN{}, 0, pdsPackets(t, got["host1-leaf0"])
	for i := range list {
		if p := &list[i]; p.from == "leaf0" && p.is(wire.PDSType.IsRequest) {
			r, _ := wire.ParseRequest(p.u)
			if q, known := top[r.SPDCID()]; known && r.PSN().Before(q) {
				late++
			} else {
				top[r.SPDCID()] = r.PSN()
			}
		}
	}
	t.Logf("%d packets were overtaken", late)
	if res.Retransmits != 0 || !*res.Correct || late < 100 {
		t.Errorf("%d sent again, %d overtaken", res.Retransmits, late)
	}
}

// F16: lost packets of a long message are sent again long before their RTO.
func TestF16_InferenceOnTheWire(t *testing.T) {
	l := labOf(t, pdsStar)
	l.ok(t, "link", "set", "host1-leaf0", "loss=0.5%", "--from", "leaf0")
	before := l.counters(t)
	got, res := l.captured(t, []string{"host0-leaf0"}, "sendrecv", "--ranks", "host0,host1", "--size", "8MiB", "--check")
	gained := minus(l.counters(t), before)
	again, longest := uint64(0), int64(0)
	for _, psns := range copiesOf(pdsPackets(t, got["host0-leaf0"])) {
		for _, copies := range psns {
			for i := range copies[1:] {
				again++
				longest = max(longest, copies[i+1].due-copies[i].due)
			}
		}
	}
	t.Logf("%d sent again of %d packets, the last %d ns after it was lost", again, res.Packets, longest)
	if again < 5 || longest > 500_000 || gained["host0 fep rto"] != 0 || gained["host0 fep retx_infer"]+gained["host0 fep retx_probe"] != again {
		t.Errorf("%d sent again, %d inferred, %d by Probe, %d timeouts", again, gained["host0 fep retx_infer"], gained["host0 fep retx_probe"], gained["host0 fep rto"])
	}
}

// F22: nothing that a hostile link does to packets shows in the data.
func TestF22_StressIsCorrect(t *testing.T) {
	stress(t)
	dups := sum(stressed.gain, func(_, port, c string) bool { return port == "fep" && c == "dup_rx" })
	t.Logf("%d packets, %d sent again, %d duplicates", stressed.res.Packets, stressed.res.Retransmits, dups)
	if !*stressed.res.Correct || stressed.res.Drops == 0 || dups == 0 {
		t.Errorf("correct %v, %d drops, %d duplicates", *stressed.res.Correct, stressed.res.Drops, dups)
	}
}
