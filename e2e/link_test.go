package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/nodecore"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

const failing = "leaf0-spine0"

// failAt schedules in the simulator what `link fail` does in a lab: both ends at one time, and everybody's routes
// when the fabric has converged.
func failAt(t testing.TB, l *lab, after time.Duration) func(*sim.Fabric) {
	return func(f *sim.Fabric) {
		id, _, err := l.plan.FindLink(failing)
		if err != nil {
			t.Fatal(err)
		}
		k, at, down := l.plan.Links[id], t0.Add(after), true
		change := func(node int, changes ...ctl.Change) {
			if err := f.Change(node, changes...); err != nil {
				t.Fatal(err)
			}
		}
		change(k.A.Node, ctl.Change{At: at, Port: k.A.Port, Impair: &link.Impair{Down: true}}, ctl.Change{At: at, Port: k.A.Port, RxDown: &down})
		change(k.B.Node, ctl.Change{At: at, Port: k.B.Port, RxDown: &down}, ctl.Change{At: at, Port: k.B.Port, Impair: &link.Impair{Down: true}})
		for sw, r := range l.plan.Routes(map[int]bool{id: true}) {
			change(sw, ctl.Change{At: at.Add(l.plan.Convergence), Port: -1, Routes: nodecore.Groups(r)})
		}
	}
}

// restore brings the link up again and waits until all routes lead over it.
func (l *lab) restore(t testing.TB) {
	t.Helper()
	r := decode[[]api.LinkChangeResult](t, l.ok(t, "link", "restore", failing, "--format", "json"))
	if len(r) != 1 || r[0].When != api.WhenNow || r[0].RoutesAtNs != 0 && r[0].RoutesAtNs <= r[0].AtNs {
		t.Fatalf("link restore: %+v", r)
	}
	until(t, "the fabric to converge", func() bool { return l.clock(t).MinHorizonNs > r[0].RoutesAtNs })
}

// TestLinkFailureRepeats fails a link 30 us into an allreduce, three times armed before the run and once during it, while
// the clock is paused. All must equal the simulation.
func TestLinkFailureRepeats(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	whole := simulate(t, &l.plan, workload.Spec{Workload: workload.Allreduce, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}, nil)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Allreduce, Size: 1 << 20, Iters: 1, Check: true, Seed: 1}, failAt(t, l, 30*time.Microsecond))
	if want.Drops == 0 || want.FCT == whole.FCT {
		t.Fatalf("the failure changes nothing: %+v", want)
	}
	t.Cleanup(func() {
		if t.Failed() { // what is armed still is used up
			l.do(t, "run", "sendrecv", "--size", "256KiB")
		}
		l.do(t, "link", "restore", failing)
	})
	run := []string{"allreduce", "--size", "1MiB", "--check", "--seed", "1"}
	for i := range 4 {
		before := l.counters(t)
		var p *process
		when := api.WhenNextRun
		if i == 3 {
			when = api.WhenThisRun
			l.clockTo(t, "pause")
			p = l.startRun(t, run...)
			until(t, "the run to begin", func() bool { return p.ended() || l.running(t) })
			l.clockTo(t, "step", "12345ns")
		}
		r := decode[[]api.LinkChangeResult](t, l.ok(t, "link", "fail", failing, "--at", "+30us", "--format", "json"))
		if len(r) != 1 || r[0].When != when || r[0].RelNs != 30_000 {
			t.Fatalf("link fail --at +30us: %+v, want %s at 30000", r, when)
		}
		if p == nil {
			p = l.startRun(t, run...)
		} else {
			l.clockTo(t, "resume")
		}
		res := result(t, p)
		same(t, fmt.Sprintf("run %d with a failing link", i), res, want)
		if res.Correct == nil || !*res.Correct {
			t.Errorf("run %d is not correct", i)
		}
		explain(t, res, minus(l.counters(t), before))
		l.restore(t)
	}
	same(t, "a run after the link is restored", l.run(t, run...), whole)
}

// explain demands that the counters account for every retransmission. Every data packet that was sent has arrived for the
// first time (data_rx), has arrived again (dup_rx), or was lost; once a run has ended correct each of them
// has arrived for the first time just once, so that data_rx = data_tx - retx. What remains is
//
//	retx = dup_rx + lost data packets,
//
// and since drops count lost data packets and lost acknowledgements alike,
//
//	dup_rx <= retx <= dup_rx + drops.
//
// It holds as long as no end point turns packets away; those counters must read 0.
func explain(t testing.TB, r workload.Result, gained map[string]uint64) {
	t.Helper()
	fep := func(name string) uint64 {
		return sum(gained, func(_, port, counter string) bool { return port == "fep" && counter == name })
	}
	retx, dup, sent, rx := fep("retx"), fep("dup_rx"), fep("data_tx"), fep("data_rx")
	drops := sum(gained, func(_, port, counter string) bool { return port != "fep" && strings.HasPrefix(counter, "drop_") })
	if retx != r.Retransmits || drops != r.Drops || sent != r.Packets {
		t.Errorf("counters gained %d retx, %d drops, %d data packets; the result says %d, %d, %d", retx, drops, sent, r.Retransmits, r.Drops, r.Packets)
	}
	if rx != sent-retx {
		t.Errorf("%d packets arrived for the first time, %d were sent for the first time", rx, sent-retx)
	}
	if retx < dup || retx > dup+drops {
		t.Errorf("%d retransmissions are not explained by %d duplicates and %d drops", retx, dup, drops)
	}
	for _, name := range []string{"nacks_tx_resource", "nacks_tx_pdc", "crc_bad", "malformed", "unsupported", "unknown_pdcid", "ctl_overflow", "msgs_err"} {
		if n := fep(name); n != 0 {
			t.Errorf("end points count %d %s", n, name)
		}
	}
	// All drops are the failure's: at the two ports of the link, for want of a route behind it, or in the queues before the
	// path that is left.
	var where []string
	for k, v := range gained {
		f := strings.Fields(k)
		if f[1] == "fep" || !strings.HasPrefix(f[2], "drop_") {
			continue
		}
		where = append(where, fmt.Sprintf("%s=%d", k, v))
		switch f[2] {
		case "drop_link_down", "drop_link_cut", "drop_no_route", "drop_queue_full":
		default:
			t.Errorf("a drop that no failure explains: %s %d", k, v)
		}
		if f[2] == "drop_no_route" && f[0] != "spine0" {
			t.Errorf("%s has no route for %d packets; only spine0 lost its link", f[0], v)
		}
	}
	t.Logf("max %d ns; %d retransmissions = %d lost data packets + %d duplicates; %d drops: %v", r.FCT.Max, retx, retx-dup, dup, drops, where)
}

// TestImpairments changes a link at rest and sees the change in the listing and in a run.
func TestImpairments(t *testing.T) {
	l := sharedLab(t)
	t.Cleanup(func() { l.do(t, "link", "restore", failing) })
	run := func(size int64) workload.Result {
		return l.run(t, "permutation", "--seed", "1", "--size", fmt.Sprint(size))
	}
	sound := func(size int64, prepare func(*sim.Fabric)) figures {
		return simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: size, Iters: 1, Seed: 1}, prepare)
	}
	const large, small = 256 << 10, 16 << 10
	same(t, "before", run(large), sound(large, nil))
	for _, c := range []struct {
		settings []string
		slower   bool
		drops    bool
	}{
		{[]string{"delay=+2us"}, true, false},
		{[]string{"rate=25%"}, true, false},
		{[]string{"loss=2%"}, true, true},
		{[]string{"burst=p:2%,r:30%,bad:80%,good:0.1%"}, true, true},
		{[]string{"ber=1e-5"}, true, true},
		{[]string{"duplicate=5%"}, false, false},
		{[]string{"reorder=30%,5us"}, true, false},
		{[]string{"jitter=1us,exponential"}, true, false},
		{[]string{"jitter=500ns,pareto", "rate=150Gbps", "--from", "leaf0"}, true, false},
		{[]string{"blackhole", "--from", "spine0"}, true, true},
	} {
		l.ok(t, append([]string{"link", "set", failing}, c.settings...)...)
		if s := l.linkState(t, failing); s.State != api.LinkImpaired {
			t.Errorf("%v: link is %+v", c.settings, s)
		}
		size := int64(large)
		if c.settings[0] == "blackhole" {
			size = small // half of all packets are lost: of many, some would be lost too often
		}
		whole, want := sound(size, nil), sound(size, under(t, l, failing, c.settings))
		a, b := run(size), run(size)
		same(t, fmt.Sprintf("first run with %v", c.settings), a, want)
		same(t, fmt.Sprintf("second run with %v", c.settings), b, want)
		if slower := a.FCT.Max > whole.FCT.Max; slower != c.slower || a.Drops > 0 != c.drops {
			t.Errorf("%v: max %d ns with %d drops; unimpaired %d ns", c.settings, a.FCT.Max, a.Drops, whole.FCT.Max)
		}
		l.restore(t)
	}
	if s := l.linkState(t, failing); s.State != api.LinkUp {
		t.Errorf("after restore the link is %+v", s)
	}
	same(t, "after", run(large), sound(large, nil))
}

// under damages a link in the simulator before the run begins, as link set does.
func under(t testing.TB, l *lab, name string, settings []string) func(*sim.Fabric) {
	return func(f *sim.Fabric) {
		id, _, err := l.plan.FindLink(name)
		if err != nil {
			t.Fatal(err)
		}
		x := faults.Fault{At: t0 - 500, Link: id, From: faults.Both, Op: faults.Change}
		if i := slices.Index(settings, "--from"); i >= 0 {
			n, err := l.plan.Node(settings[i+1])
			if err != nil {
				t.Fatal(err)
			}
			x.From, settings = n.ID, settings[:i]
		}
		if x.Set, err = faults.ParseSettings(settings); err != nil {
			t.Fatal(err)
		}
		meet(t, l, f, x)
	}
}

// meet schedules faults in the simulator.
func meet(t testing.TB, l *lab, f *sim.Fabric, list ...faults.Fault) {
	t.Helper()
	b, err := faults.New(&l.plan).Schedule(list...)
	if err == nil {
		err = b.Each(f.Change)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) linkState(t testing.TB, name string) api.LinkStatus {
	t.Helper()
	for _, s := range decode[[]api.LinkStatus](t, l.ok(t, "link", "ls", "--format", "json")) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("link ls does not list %s", name)
	return api.LinkStatus{}
}
