package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/capture/pcapfile"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// onWire is a frame as it passed a veth pair, with its link trailer.
type onWire struct {
	seen
	llr   uint32 // LLR word
	fcs   uint32 // 0: right, wire.FCSPoison: poisoned
	lost  bool   // its preamble is damaged
	plain bool   // it has no trailer
}

// numbered says whether LLR protects the frame, again whether it was sent before.
func (f *onWire) numbered() bool { return !f.lost && !f.plain && f.llr>>28 == wire.LLREligible }
func (f *onWire) again() bool    { return uint8(f.llr>>20)&wire.LLRFlagReplay != 0 }
func (f *onWire) seq() uint32    { return f.llr & 0xFFFFF }

// sets are the ordered sets of a frame, none if it is no frame of these.
func (f *onWire) sets() (list []wire.CtlOS) {
	if wire.EtherType(uint16(f.b[12])<<8|uint16(f.b[13])) != wire.EtherExperiment {
		return nil
	}
	b, err := wire.ParseCtlOSBundle(f.b[wire.EthLen:])
	if err != nil {
		return nil
	}
	for i := range b.Len() {
		list = append(list, b.At(i))
	}
	return list
}

// wires reads a capture with trailers.
func wires(t testing.TB, file string) (list []onWire) {
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
		from, _, _ := strings.Cut(p.Iface, ":")
		b := append([]byte(nil), p.Data...)
		x := onWire{seen: seen{from, p.Time, b}}
		v := wire.TrailerOf(b)
		if x.plain = v == nil || v.Flipped() < 0 && !v.OK(); !x.plain {
			x.b = b[:len(b)-wire.TrailerLen]
			x.llr, x.fcs, x.lost = v.LLR(), v.FCS()^wire.FCS(x.b), !v.OK()
		}
		list = append(list, x)
	}
}

// passage is what a run has put on a link.
type passage struct {
	t      testing.TB
	frames []onWire
	res    workload.Result
	gained map[string]uint64 // counters, by node, port and name
}

// arrivals are the counters that say what became of a frame which a line has brought: one each.
var arrivals = []string{"rx_frames", "drop_link_cut", "drop_fcs", "drop_poisoned", "drop_preamble", "llr_rx_missing_seq", "llr_rx_duplicate_seq", "llr_rx_ctl_os_frames", "llr_ctl_os_bad"}

// passes runs a workload under a script of steps, one a line without dash and braces, goes on for some time of the clock afterwards, and gives
// all that a link carried. The link is sound before and after.
func (l *lab) passes(t testing.TB, link, steps, rest string, run ...string) passage {
	t.Helper()
	l.settle(t)
	p, file := l.capture(t, link, "--trailers")
	before := l.counters(t)
	if steps != "" {
		script := "name: wire\nsteps:\n"
		for _, s := range strings.Split(steps, "\n") {
			script += "  - {" + s + "}\n"
		}
		l.ok(t, "chaos", write(t, script))
		defer l.heal(t)
	}
	x := passage{t: t, res: l.run(t, run...)}
	l.clockTo(t, "pause")
	if rest != "" {
		l.clockTo(t, "step", rest)
	}
	x.gained = minus(l.counters(t), before)
	stop(t, p, file, l.ofEnds(t, link, x.gained, arrivals...))
	x.frames = wires(t, file)
	l.clockTo(t, "resume")
	return x
}

// ofEnds adds up counters of the two ends of a link.
func (l *lab) ofEnds(t testing.TB, link string, gained map[string]uint64, counters ...string) (n uint64) {
	t.Helper()
	id, _, err := l.plan.FindLink(link)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []topology.End{l.plan.Links[id].A, l.plan.Links[id].B} {
		node := &l.plan.Nodes[e.Node]
		for _, c := range counters {
			n += gained[node.Name+" "+node.Ports[e.Port].Name+" "+c]
		}
	}
	return n
}

// heal frees all links of impairments.
func (l *lab) heal(t testing.TB) {
	t.Helper()
	args := []string{"link", "restore"}
	for _, k := range l.plan.Links {
		args = append(args, k.Name)
	}
	l.ok(t, args...)
}

// flow is the file of a workload of one message.
func flow(t testing.TB, nodes, from, to, size int) []string {
	t.Helper()
	return []string{"matrix", "--file", writeFile(t, "flow.cm", fmt.Sprintf("Nodes %d\nConnections 1\n%d->%d id 1 start 0 size %d\n", nodes, from, to, size))}
}

// want checks counters, written "host0 eth1 llr_tx_ok".
func (x *passage) want(counts map[string]uint64) {
	x.t.Helper()
	for k, n := range counts {
		if got := x.gained[k]; got != n {
			x.t.Errorf("%s is %d, not %d", k, got, n)
		}
	}
}

// whole checks that no packet had to be sent again from end to end, or at least one.
func (x *passage) whole(is bool) {
	x.t.Helper()
	if is != (x.res.Retransmits == 0) {
		x.t.Errorf("%d retransmissions end to end", x.res.Retransmits)
	}
}

// pick gives the frames of a node that are such.
func (x *passage) pick(from string, such func(f *onWire) bool) (list []*onWire) {
	for i := range x.frames {
		if f := &x.frames[i]; f.from == from && such(f) {
			list = append(list, f)
		}
	}
	return list
}

// sets gives the ordered sets of a kind that a node has sent.
func (x *passage) sets(from string, kind wire.CtlOSType) (list []wire.CtlOS) {
	for _, f := range x.pick(from, func(*onWire) bool { return true }) {
		for _, s := range f.sets() {
			if s.Type() == kind {
				list = append(list, s)
			}
		}
	}
	return list
}

func firstTime(f *onWire) bool { return f.numbered() && !f.again() }
func replay(f *onWire) bool    { return f.numbered() && f.again() }
