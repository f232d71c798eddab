package sim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

const agreedFile = "name: t\nfabric: {kind: leaf-spine, spines: 1, leaves: 2, hostsPerLeaf: 2}\ndefaults: {fep: {cc: fixed, lb: spray}, link: {lldp: on, llr: on, cbfc: on%s}, switch: {trim: {enabled: false}}}\n"

// linkPorts are both ports of a link.
func linkPorts(t *testing.T, plan *topology.Plan, f *Fabric, name string) (l *topology.Link, a, b *link.Port) {
	t.Helper()
	id, _, err := plan.FindLink(name)
	if err != nil {
		t.Fatal(err)
	}
	l = &plan.Links[id]
	return l, f.nodes[l.A.Node].Ports[l.A.Port], f.nodes[l.B.Node].Ports[l.B.Port]
}

// runs says what is at work at a port: LLR with its state, a replay being no other than ADVANCE, credits of its sender, credits of its receiver.
func runs(p *link.Port) (text string) {
	if p.LLR() != nil {
		s := llr.State(p.C.LLR()[llr.TxState])
		if s == llr.Replay {
			s = llr.Advance
		}
		text += "llr " + s.String() + " "
	}
	if tx, rx := p.CBFC(); tx != nil {
		if tx.On() != 0 {
			text += "sends by credits "
		}
		if rx.On() != 0 {
			text += "gives credits"
		}
	}
	return text
}

const allOn = "llr ADVANCE sends by credits gives credits"

// everywhere wants all links to have come up.
func everywhere(t *testing.T, plan *topology.Plan, f *Fabric, want string) {
	t.Helper()
	for i, n := range f.nodes {
		for q, p := range n.Ports {
			if got := runs(p); got != want {
				t.Errorf("at %v: %s %s: %q, want %q", f.now, plan.Nodes[i].Name, plan.Nodes[i].Ports[q].Name, got, want)
			}
		}
	}
}

// agreedCredits checks the credits of all directions that are up at both ends.
func agreedCredits(t *testing.T, f *Fabric, plan *topology.Plan) (up int) {
	t.Helper()
	for _, l := range plan.Links {
		for _, d := range [][2]topology.End{{l.A, l.B}, {l.B, l.A}} {
			s, _ := f.nodes[d[0].Node].Ports[d[0].Port].CBFC()
			_, r := f.nodes[d[1].Node].Ports[d[1].Port].CBFC()
			for vc := range link.NumQueues {
				if s.On()&r.On()>>vc&1 == 0 {
					continue
				}
				up++
				a, b := s.VC(f.now, vc), r.VC(vc)
				way, stored, untold := (a.Consumed-b.Consumed)&cycle, b.Used, (b.Freed-a.Freed)&cycle
				if way+stored+untold != a.Used || way > 1<<15 || stored > 1<<15 || untold > 1<<15 {
					t.Fatalf("%s to node %d at %v, channel %d: sender %+v, receiver %+v", l.Name, d[1].Node, f.now, vc, a, b)
				}
			}
		}
	}
	return up
}

// set schedules a change as the daemon would.
func set(t *testing.T, s *faults.State, f *Fabric, list ...faults.Fault) {
	t.Helper()
	b, err := s.Schedule(list...)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Each(f.Change); err != nil {
		t.Fatal(err)
	}
}

func setting(t *testing.T, at vt.Time, link, from int, words ...string) faults.Fault {
	t.Helper()
	change, err := faults.ParseSettings(words)
	if err != nil {
		t.Fatal(err)
	}
	return faults.Fault{At: at, Link: link, From: from, Op: faults.Change, Set: change}
}

// TestLLDP01_WishesOnTheWire has the ends of a link want LLR and CBFC in all ways: what they say is 3 for yes and 0 for no, and it is on when both do.
func TestLLDP01_WishesOnTheWire(t *testing.T) {
	who := []string{"off", "{ends: [host0]}", "{ends: [host1]}", "on"}
	for retry := range 4 {
		for credit := range 4 {
			_, f := fromFile(t, fmt.Sprintf("name: t\nfabric: {kind: pair}\ndefaults: {link: {lldp: on, llr: %s, cbfc: %s}}\n", who[retry], who[credit]), nil)
			said := [2]wire.UEOptionsFields{}
			for i := range said {
				f.Tap(i, 0, func(fr *link.Frame) {
					if wire.Eth(fr.B).Type() != wire.EtherLLDP {
						return
					}
					list, err := wire.ParseLLDP(fr.B[wire.EthLen:])
					if err != nil {
						t.Fatal(err)
					}
					for _, tlv := range list {
						if o, err := wire.ParseUEOptions(tlv); err == nil {
							said[i] = o.Fields()
						}
					}
				})
			}
			f.until(vt.Time(50 * time.Microsecond))
			for i := range said {
				wish := func(of int) wire.LinkWish {
					if of>>i&1 != 0 {
						return 3
					}
					return 0
				}
				both := func(of int) wire.LinkWish {
					if of == 3 {
						return 3
					}
					return 0
				}
				if o := said[i]; o.LLRWanted != wish(retry) || o.CBFCWanted != wish(credit) || o.LLREnabled != both(retry) || o.CBFCEnabled != both(credit) {
					t.Errorf("llr %s, cbfc %s: host%d says %+v", who[retry], who[credit], i, o)
				}
				want := ""
				if retry == 3 {
					want += "llr ADVANCE "
				}
				if credit == 3 {
					want += "sends by credits gives credits"
				}
				if got := runs(f.nodes[i].Ports[0]); got != want {
					t.Errorf("llr %s, cbfc %s: host%d has %q, want %q", who[retry], who[credit], i, got, want)
				}
			}
		}
	}
}

// TestAgreementOfARun: a run begins with neither, both come within some microseconds, and the next run is the same.
func TestAgreementOfARun(t *testing.T) {
	plan, f := fromFile(t, fmt.Sprintf(agreedFile, ", ber: 1e-7"), nil)
	var first workload.Result
	for i := range 3 {
		at := f.Now().Add(time.Duration(1+i) * 1_234_567 * time.Nanosecond)
		s := spec(t, plan, workload.Incast, 1<<20, 1)
		res, err := f.Run(s, at, Options{})
		if err != nil || !*res.Correct || res.Fidelity.Verdict != "exact" {
			t.Fatalf("%s, %v", res.Fidelity.Verdict, err)
		}
		everywhere(t, plan, f, allOn)
		if i == 0 {
			first = res
		} else if !reflect.DeepEqual(res.FCT, first.FCT) || res.PacketHops != first.PacketHops {
			t.Errorf("run %d: %+v, the first %+v", i, res.FCT, first.FCT)
		}
	}
	_, again := fromFile(t, fmt.Sprintf(agreedFile, ", ber: 1e-7"), nil)
	again.results = map[int]workload.RankResult{}
	if err := again.begin(spec(t, plan, workload.Incast, 1<<20, 1), t0); err != nil {
		t.Fatal(err)
	}
	last, up := vt.Time(0), 0
	for again.step(t0 + vt.Time(first.FCT.Max)) {
		if n := agreedCredits(t, again, plan); again.now > t0 && n != up {
			last, up = again.now, n
		}
	}
	if up != 2*len(plan.Links) || last > t0.Add(10*time.Microsecond) {
		t.Errorf("%d directions have credits, the last from %v on", up, last)
	}
}

// TestLLDP02_SilentNeighbour cuts both directions of a link without its carrier: within a TTL and a second LLR and CBFC are off at both ends, frames
// go as best effort, and all comes back.
func TestLLDP02_SilentNeighbour(t *testing.T) {
	plan, f := fromFile(t, fmt.Sprintf(agreedFile, ""), nil)
	state := faults.New(plan)
	l, a, b := linkPorts(t, plan, f, "leaf0-spine0")
	s := spec(t, plan, workload.Permutation, 1<<20, 1)
	silent := t0.Add(20 * time.Microsecond)
	set(t, state, f, faults.Fault{At: silent, Link: l.ID, From: faults.Both, Op: faults.Blackhole})
	f.results = map[int]workload.RankResult{}
	if err := f.begin(s, t0); err != nil {
		t.Fatal(err)
	}
	f.until(silent.Add(-1))
	if runs(a) != allOn || runs(b) != allOn {
		t.Fatalf("before: %q and %q", runs(a), runs(b))
	}
	f.until(silent.Add(2 * time.Second))
	if a.LLR() == nil || b.LLR() == nil {
		t.Errorf("two seconds later: %q and %q", runs(a), runs(b))
	}
	f.until(silent.Add(5 * time.Second)) // TTL + 1 s
	if runs(a) != "" || runs(b) != "" {
		t.Fatalf("five seconds later: %q and %q", runs(a), runs(b))
	}
	// Nothing hangs: what is offered leaves, though it does not arrive.
	before := a.C[link.TxFrames]
	f.until(silent.Add(6 * time.Second))
	if a.C[link.TxFrames] == before || a.Backlog() != 0 || b.Backlog() != 0 {
		t.Errorf("%d frames sent, %d and %d bytes wait", a.C[link.TxFrames]-before, a.Backlog(), b.Backlog())
	}
	// One direction is heard again, which is not enough; then the other.
	off := faults.Fault{At: silent.Add(6500 * time.Millisecond), Link: l.ID, From: l.A.Node, Op: faults.Change, Set: faults.Set{Blackhole: new(bool)}}
	then := off
	then.At, then.From = silent.Add(8*time.Second), l.B.Node
	set(t, state, f, off, then)
	f.until(silent.Add(7900 * time.Millisecond))
	if runs(a) != "" {
		t.Errorf("one direction heard: %q and %q", runs(a), runs(b))
	}
	f.until(silent.Add(10 * time.Second))
	if runs(a) != allOn || runs(b) != allOn {
		t.Errorf("heard again: %q and %q", runs(a), runs(b))
	}
	agreedCredits(t, f, plan)
	set(t, state, f, setting(t, f.now.Add(time.Second), l.ID, faults.Both, "blackhole=off"))
	res, err := f.Run(s, f.now.Add(2*time.Second), Options{})
	if err != nil || !*res.Correct || res.Drops != 0 {
		t.Errorf("a run afterwards: %d drops, %v", res.Drops, err)
	}
}

// TestLLDP03_LimitsChangeUnderLoad lowers the room of a receiver and raises it again while frames wait for credits: its sender keeps to what it has been told.
func TestLLDP03_LimitsChangeUnderLoad(t *testing.T) {
	plan, f := fromFile(t, fmt.Sprintf(agreedFile, ""), nil)
	state := faults.New(plan)
	id, _, err := plan.FindLink("host0-leaf0")
	if err != nil {
		t.Fatal(err)
	}
	l := &plan.Links[id]
	a, b := f.nodes[l.A.Node].Ports[l.A.Port], f.nodes[l.B.Node].Ports[l.B.Port]
	q := l.CBFC.Profile.VCs[0].Index
	usual := l.CBFC.Profile.VCs[0].Limit
	f.results = map[int]workload.RankResult{}
	if err := f.begin(spec(t, plan, workload.Incast, 4<<20, 1), t0); err != nil {
		t.Fatal(err)
	}
	lower, higher, from := t0.Add(40*time.Microsecond), t0.Add(120*time.Microsecond), l.A.Node
	if plan.Nodes[from].Kind != topology.KindFEP {
		from = l.B.Node
		a, b = b, a
	}
	leaf := l.A.Node + l.B.Node - from
	set(t, state, f, setting(t, lower, id, leaf, "cbfc=limit:16KiB"), setting(t, higher, id, leaf, "cbfc=limit:256KiB"))
	limit := func() uint32 { tx, _ := a.CBFC(); return tx.VC(f.now, int(q)).Limit }
	used := func() uint32 { tx, _ := a.CBFC(); return tx.VC(f.now, int(q)).Used }
	back := func() uint32 { tx, _ := b.CBFC(); return tx.VC(f.now, int(q)).Limit }
	seen := map[uint32]bool{}
	for f.step(t0.Add(400 * time.Microsecond)) {
		if f.now < t0 {
			continue
		}
		agreedCredits(t, f, plan)
		seen[limit()] = true
		for _, c := range f.nodes[from].Credits(f.now) {
			if c.Port == plan.Nodes[from].Ports[0].Name && c.VC == int(q) && limit() != 0 && c.State == cbfc.On && c.Limit != limit() {
				t.Fatalf("at %v: a limit of %d is told, %d obeyed", f.now, c.Limit, limit())
			}
		}
		switch at := f.now; {
		case at < lower && at > t0.Add(20*time.Microsecond) && limit() != usual,
			at > lower.Add(10*time.Microsecond) && at < higher && limit() != 16<<10/128,
			at > lower.Add(30*time.Microsecond) && at < higher && used() > 16<<10/128,
			at > higher.Add(10*time.Microsecond) && limit() != 256<<10/128:
			t.Fatalf("at %v: limit %d, %d used", at, limit(), used())
		}
	}
	if len(seen) < 3 || seen[0] && len(seen) < 4 || back() != usual {
		t.Errorf("limits seen: %v; of the other direction %d", seen, back())
	}
	f.until(t0.Add(10 * time.Millisecond))
	if len(f.results) != len(hosts(plan)) {
		t.Errorf("%d ranks have finished", len(f.results))
	}
}

// restarted puts a new node in the place of another at a time: what was in it is lost, like what is on its way to it, and its neighbours know nothing of it.
func restarted(t *testing.T, plan *topology.Plan, f *Fabric, id int, now vt.Time) {
	t.Helper()
	cfg := nodecore.Config(plan, id, 1, plan.Routes(nil)[id])
	cfg.Start = now
	n, err := nodecore.New(cfg, f.outs[id], &f.mem, f.result)
	if err != nil {
		t.Fatal(err)
	}
	old := f.nodes[id]
	f.nodes[id] = n
	for _, o := range f.outs {
		for i := range o.peers {
			if o.peers[i].node == old {
				o.peers[i].node = n
			}
		}
	}
	f.ahead[id] = f.lookahead(id)
}

// TestLLDP05_RestartUnderLoad starts a switch again in the middle of a run: its neighbours begin LLR and CBFC anew, and all messages arrive.
func TestLLDP05_RestartUnderLoad(t *testing.T) {
	for _, ber := range []string{"", ", ber: 1e-7"} {
		plan, f := fromFile(t, fmt.Sprintf(agreedFile, ber), nil)
		s := spec(t, plan, workload.Permutation, 4<<20, 1)
		f.results = map[int]workload.RankResult{}
		if err := f.begin(s, t0); err != nil {
			t.Fatal(err)
		}
		id := nodeID(t, plan, "spine0")
		at := t0.Add(30 * time.Microsecond)
		f.until(at)
		everywhere(t, plan, f, allOn)
		if busy := f.nodes[id].Ports[0]; busy.C[link.RxData] == 0 {
			t.Fatal("no load")
		}
		restarted(t, plan, f, id, f.now+1)
		for f.step(at.Add(20 * time.Microsecond)) {
			agreedCredits(t, f, plan)
		}
		everywhere(t, plan, f, allOn)
		for id := range plan.Nodes {
			for _, p := range f.nodes[id].Neighbours(f.now) {
				if n := p.Neighbour; n.System == "spine0" && (p.Counters["restarts"] != 1 || n.UE.BootID == 1) {
					t.Errorf("%s: %v, boot ID %d", plan.Nodes[id].Name, p.Counters, n.UE.BootID)
				}
			}
		}
		f.until(t0.Add(200 * time.Millisecond))
		if len(f.results) != s.Ranks {
			t.Fatalf("%d ranks of %d have finished", len(f.results), s.Ranks)
		}
		for _, r := range f.results {
			if r.Error != "" {
				t.Errorf("rank %d: %s", r.Rank, r.Error)
			}
		}
	}
}

func nodeID(t *testing.T, plan *topology.Plan, name string) int {
	t.Helper()
	n, err := plan.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

// TestWishesUnderLoad has ends change their minds by chance in the middle of a run, with bits that arrive wrong: credits are conserved wherever both ends
// count, nothing hangs, and in the end all is as it was.
func TestWishesUnderLoad(t *testing.T) {
	n := 8
	if testing.Short() {
		n = 3
	}
	for range n {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		plan, f := fromFile(t, fmt.Sprintf(agreedFile, []string{"", ", ber: 3e-8"}[rng.IntN(2)]), nil)
		state := faults.New(plan)
		var list []faults.Fault
		end := t0.Add(300 * time.Microsecond)
		for range 20 {
			l := &plan.Links[rng.IntN(len(plan.Links))]
			from := []int{l.A.Node, l.B.Node, faults.Both}[rng.IntN(3)]
			list = append(list, setting(t, t0+vt.Time(rng.Int64N(250_000)), l.ID, from, []string{"llr=on", "llr=off", "cbfc=on", "cbfc=off", "cbfc=limit:24KiB", "cbfc=limit:200KiB"}[rng.IntN(6)]))
		}
		for id := range plan.Links {
			list = append(list, setting(t, end, id, faults.Both, "llr=on", "cbfc=on"))
		}
		s := spec(t, plan, workload.Incast, 2<<20, 1)
		f.results = map[int]workload.RankResult{}
		if err := f.begin(s, t0); err != nil {
			t.Fatal(err)
		}
		set(t, state, f, list...)
		lossy := plan.Links[0].BER > 0
		for f.step(end.Add(40 * time.Second)) {
			if !lossy && f.now > t0 {
				agreedCredits(t, f, plan)
			}
			if len(f.results) == s.Ranks && f.now > end.Add(10*time.Second) {
				break
			}
		}
		if everywhere(t, plan, f, allOn); len(f.results) != s.Ranks || t.Failed() {
			t.Fatalf("seed %d: %d ranks of %d have finished", seed, len(f.results), s.Ranks)
		}
	}
}

// TestStaticLinksSayWhatTheyHave: with lldp: static both are on at once, as configured, and agents tell.
func TestStaticLinksSayWhatTheyHave(t *testing.T) {
	plan, f := fromFile(t, "name: t\nfabric: {kind: pair}\ndefaults: {link: {lldp: static, llr: on, cbfc: on}}\n", nil)
	everywhere(t, plan, f, allOn)
	for _, e := range []topology.End{plan.Links[0].A, plan.Links[0].B} {
		if err := f.Change(e.Node, ctl.Change{At: vt.Time(time.Millisecond), Port: e.Port, Retry: &ctl.Retry{}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want bool) {
		t.Helper()
		for i := range plan.Nodes {
			for _, p := range f.nodes[i].Neighbours(f.now) {
				if !p.Static || p.LLR != want || !p.CBFC || p.Neighbour == nil || (p.Neighbour.UE.LLREnabled == wire.WishBoth.String()) != want {
					t.Errorf("at %v: %+v, %+v", f.now, p, p.Neighbour)
				}
			}
		}
	}
	f.until(vt.Time(100 * time.Microsecond))
	check(true)
	f.until(vt.Time(1100 * time.Microsecond))
	check(false)
}
