package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

const cycle = 1<<20 - 1 // counts of credits have 20 bits

// conserved checks the credits of all directions of all links: nobody has seen more frames than were sent, or freed more than it has seen, or heard of
// more than was freed, and nothing is out beyond the limit. At rest all are back.
func conserved(t *testing.T, f *Fabric, plan *topology.Plan, rest bool) {
	t.Helper()
	for _, l := range plan.Links {
		for _, d := range [][2]topology.End{{l.A, l.B}, {l.B, l.A}} {
			s, _ := f.nodes[d[0].Node].Ports[d[0].Port].CBFC()
			_, r := f.nodes[d[1].Node].Ports[d[1].Port].CBFC()
			sum := uint32(0)
			for vc := range link.NumQueues {
				a, b := s.VC(f.now, vc), r.VC(vc)
				way, stored, untold := (a.Consumed-b.Consumed)&cycle, b.Used, (b.Freed-a.Freed)&cycle
				limit := a.Limit
				if p := &l.CBFC.Profile; p.Method == wire.CBFCTotal {
					limit = p.Total
				}
				if s.State(vc) == cbfc.Off || r.On()>>vc&1 == 0 { // removed: what was stored then leaves, and nobody counts the rest
					if rest && r.Stays(vc) != 0 {
						t.Fatalf("%s to node %d, channel %d: %d credits still stored", l.Name, d[1].Node, vc, r.Stays(vc))
					}
					continue
				}
				if a.Used > limit || way+stored+untold != a.Used || way > limit || stored > limit || untold > limit || rest && a.Used != 0 {
					t.Fatalf("%s to node %d at %v, channel %d: sender %+v, receiver %+v", l.Name, d[1].Node, f.now, vc, a, b)
				}
				sum += a.Used
			}
			if p := &l.CBFC.Profile; p.Method == wire.CBFCTotal && sum > p.Total {
				t.Fatalf("%s to node %d at %v: %d credits out, of %d", l.Name, d[1].Node, f.now, sum, p.Total)
			}
		}
	}
}

// credited runs a workload on a fabric with CBFC, twice: once to look at the credits after every step.
func credited(t *testing.T, text, name string, size int64) (workload.Result, *Fabric, *topology.Plan) {
	t.Helper()
	plan, f := fromFile(t, text, nil)
	s := spec(t, plan, name, size, 1)
	res, err := f.Run(s, t0, Options{})
	if err != nil || !*res.Correct || res.Fidelity.Verdict != "exact" {
		t.Fatalf("%s, %v", res.Fidelity.Verdict, err)
	}
	_, again := fromFile(t, text, nil)
	again.results = map[int]workload.RankResult{}
	if err := again.begin(s, t0); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for again.step(t0 + vt.Time(res.FCT.Max) + vt.Time(2*time.Millisecond)) {
		if again.now >= t0 {
			conserved(t, again, plan, false)
			steps++
		}
	}
	conserved(t, again, plan, true)
	t.Logf("%s: %v, %d trims, %d drops, %d retransmissions, credits looked at %d times", name, time.Duration(res.FCT.Max), res.Trims, res.Drops, res.Retransmits, steps)
	return res, f, plan
}

func creditedFile(link string) string {
	return fmt.Sprintf("name: ft\nfabric: {kind: leaf-spine, spines: 2, leaves: 4, hostsPerLeaf: 2}\ndefaults: {fep: {cc: fixed, lb: spray}, link: {%s}, switch: {trim: {enabled: false}}}\n", link)
}

// TestCBFCIncast has seven sources send to one on a fabric with credits and without trimming: nothing is lost, though without credits it is.
func TestCBFCIncast(t *testing.T) {
	res, f, _ := credited(t, creditedFile("cbfc: on"), workload.Incast, 1<<20)
	if res.Drops != 0 || res.Trims != 0 || res.Retransmits != 0 {
		t.Errorf("%d drops, %d trims, %d retransmissions", res.Drops, res.Trims, res.Retransmits)
	}
	var c cbfc.Counters
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			for i, v := range p.C.CBFC() {
				c[i] += v
			}
		}
	}
	if c[cbfc.CFTx] == 0 || c[cbfc.CFTx] != c[cbfc.CFRx] || c[cbfc.CCTx] != c[cbfc.CCRx] || c[cbfc.CFBad]+c[cbfc.CFStale]+c[cbfc.CCStale]+c[cbfc.LeakCredits]+c[cbfc.BackCredits] != 0 {
		t.Errorf("counters %v", c)
	}
	plan, off := fromFile(t, creditedFile("cbfc: off"), nil)
	res, err := off.Run(spec(t, plan, workload.Incast, 1<<20, 1), t0, Options{})
	if err != nil || res.Drops == 0 {
		t.Errorf("without credits: %d drops, %v", res.Drops, err)
	}
}

// TestCBFCLimitKeepsTheLineBusy: the room that a topology works out is what a link needs, so a permutation takes as long as without credits.
func TestCBFCLimitKeepsTheLineBusy(t *testing.T) {
	on, _, _ := credited(t, creditedFile("cbfc: on"), workload.Permutation, 2<<20)
	off, f := fromFile(t, creditedFile("cbfc: off"), nil)
	res, err := f.Run(spec(t, off, workload.Permutation, 2<<20, 1), t0, Options{})
	if err != nil || float64(on.FCT.Max) > 1.02*float64(res.FCT.Max) {
		t.Errorf("with credits %v, without %v, %v", on.FCT.Max, res.FCT.Max, err)
	}
}

// TestCBFCWithLLR has bits arrive wrong below credits: LLR repairs them, CC_Updates keep their place behind what is sent again, and nothing is lost
// for good.
func TestCBFCWithLLR(t *testing.T) {
	res, f, _ := credited(t, creditedFile("cbfc: {ccEvery: 2us}, llr: on, ber: 1e-7"), workload.Incast, 1<<20)
	var replays, stale, cc, gone uint64
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			replays += p.C.LLR()[llr.TxReplayed]
			gone += p.C.LLR()[llr.TxFlushed] + p.C.Drops() - p.C[link.DropFCS] - p.C[link.DropPreamble] // those are sent again on the link
			stale += p.C.CBFC()[cbfc.CCStale] + p.C.CBFC()[cbfc.LeakCredits] + p.C.CBFC()[cbfc.BackCredits]
			cc += p.C.CBFC()[cbfc.CCRx]
		}
	}
	if replays == 0 || cc == 0 || stale != 0 || res.Trims != 0 || gone != 0 {
		t.Errorf("%d replays, %d CC_Updates, %d credits corrected, %d trims, %d frames lost for good", replays, cc, stale, res.Trims, gone)
	}
}

// TestCBFCLeaks loses frames below credits without LLR: CC_Updates bring them back.
func TestCBFCLeaks(t *testing.T) {
	_, f, _ := credited(t, creditedFile("cbfc: {ccEvery: 5us}, ber: 1e-7"), workload.Alltoall, 1<<20)
	var leaks uint64
	for _, n := range f.nodes {
		for _, p := range n.Ports {
			leaks += p.C.CBFC()[cbfc.LeakCredits]
		}
	}
	if leaks == 0 {
		t.Error("no credits of lost frames came back")
	}
}

func TestCBFC15_Incast(t *testing.T) {
	text := "name: star\nfabric: {kind: star, hosts: 4}\ndefaults: {fep: {cc: fixed, lb: spray}, link: {cbfc: %s}, switch: {trim: {enabled: false}, buffer: 100%%}}\n"
	res, _, _ := credited(t, fmt.Sprintf(text, "on"), workload.Incast, 4<<20)
	if res.Drops != 0 || res.Retransmits != 0 || float64(res.FCT.Min) < 0.9*float64(res.FCT.Max) {
		t.Errorf("%d drops, %d retransmissions, flows took %v to %v", res.Drops, res.Retransmits, res.FCT.Min, res.FCT.Max)
	}
	plan, off := fromFile(t, fmt.Sprintf(text, "off"), nil)
	if res, err := off.Run(spec(t, plan, workload.Incast, 4<<20, 1), t0, Options{}); err != nil || res.Drops == 0 {
		t.Errorf("best effort: %d drops, %v", res.Drops, err)
	}
}

// TestCBFCIsTurnedOff turns credits off and on between runs, at both ends: a run without is that of a topology that says nothing, to the nanosecond, and
// one after that the first again.
func TestCBFCIsTurnedOff(t *testing.T) {
	plan, f := fromFile(t, creditedFile("cbfc: on"), nil)
	never, g := fromFile(t, creditedFile("cbfc: off"), nil)
	bare, err := g.Run(spec(t, never, workload.Incast, 1<<20, 1), t0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var took []int64
	for _, on := range []bool{true, false, true} {
		for _, l := range plan.Links {
			c := ctl.Change{At: f.Now().Add(time.Millisecond), Credit: &ctl.Credit{}}
			if on {
				c.Credit.CBFC = l.CBFC
			}
			for _, e := range []topology.End{l.A, l.B} {
				c.Port = e.Port
				if err := f.Change(e.Node, c); err != nil {
					t.Fatal(err)
				}
			}
		}
		res, err := f.Run(spec(t, plan, workload.Incast, 1<<20, 1), f.Now().Add(2*time.Millisecond), Options{})
		if err != nil || (res.Drops == 0) != on {
			t.Fatalf("credits %v: %d drops, %v", on, res.Drops, err)
		}
		took = append(took, int64(res.FCT.Max))
	}
	if took[0] != took[2] || took[1] != int64(bare.FCT.Max) {
		t.Errorf("runs took %v ns, without credits at all %d", took, int64(bare.FCT.Max))
	}
}

// TestCBFCChannels makes all classes that end points send in lossless, with a room for each or one for all: conservation holds at every step, and nothing is
// lost or trimmed in an incast.
func TestCBFCChannels(t *testing.T) {
	for _, cbfcs := range []string{"{channels: [data, control]}", "{channels: [data, control, unreliable, trimmed]}", "{channels: [data, control], method: total}",
		"{channels: [control, data], limit: {control: 16KiB, data: 64KiB}}", "{channels: [data, control, besteffort]}",
		"{channels: [data, control], limit: {control: 5KiB}}"} {
		res, f, _ := credited(t, creditedFile("cbfc: "+cbfcs), workload.Incast, 1<<20)
		if res.Drops != 0 || res.Trims != 0 || res.Retransmits != 0 {
			t.Errorf("%s: %d drops, %d trims, %d retransmissions", cbfcs, res.Drops, res.Trims, res.Retransmits)
		}
		used := uint32(0)
		var waits [2]time.Duration // at end points: data, control
		for _, n := range f.nodes {
			for _, p := range n.Ports {
				s, _ := p.CBFC()
				used |= s.VC(f.now, 3).Consumed
				if n.FEP != nil {
					waits[0] += s.VC(f.now, 1).Blocked
					waits[1] += s.VC(f.now, 3).Blocked
				}
			}
		}
		if used == 0 || waits[0] == 0 || strings.Contains(cbfcs, "5KiB") != (waits[1] > 0) {
			t.Errorf("%s: control packets took %d credits, end points waited %v", cbfcs, used, waits)
		}
	}
}

// TestCBFCIsTurnedOffUnderLoad turns credits off in the middle of an incast, on some links or on all, with and without bit errors and LLR: what waits is still
// paid for, every channel is best effort in the end, and not before that anything is lost.
func TestCBFCIsTurnedOffUnderLoad(t *testing.T) {
	for _, c := range []struct {
		link   string
		some   bool
		lossy  bool
		errors bool
	}{
		{"cbfc: on", true, false, false}, {"cbfc: on", false, true, false}, {"cbfc: {channels: [data, control]}", false, true, false},
		{"cbfc: {channels: [data, control], method: total}", false, true, false}, {"cbfc: {ccEvery: 2us}, llr: on, ber: 1e-7", false, true, true},
		{"cbfc: {ccEvery: 2us}, ber: 1e-7", false, true, true},
	} {
		plan, f := fromFile(t, creditedFile(c.link), nil)
		f.results = map[int]workload.RankResult{}
		off := t0 + vt.Time(40*time.Microsecond)
		for i, l := range plan.Links {
			if c.some && i%2 == 0 {
				continue
			}
			for _, e := range []topology.End{l.A, l.B} {
				if err := f.Change(e.Node, ctl.Change{At: off, Port: e.Port, Credit: &ctl.Credit{}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := f.begin(spec(t, plan, workload.Incast, 1<<20, 1), t0); err != nil {
			t.Fatal(err)
		}
		draining := 0
		for f.step(t0 + vt.Time(20*time.Millisecond)) {
			if f.now < t0 {
				continue
			}
			conserved(t, f, plan, false)
			for _, n := range f.nodes {
				for _, p := range n.Ports {
					if s, _ := p.CBFC(); s.Draining() != 0 {
						draining++
					}
				}
			}
		}
		conserved(t, f, plan, true)
		var drops uint64
		for id, n := range f.nodes {
			for i, p := range n.Ports {
				s, r := p.CBFC()
				removed := !c.some || plan.Nodes[id].Ports[i].Link%2 != 0
				if off := s.On() == 0 && r.On() == 0; off != removed {
					t.Errorf("%s: node %d port %d: channels %#x and %#x are on, removed %v", c.link, id, i, s.On(), r.On(), removed)
				}
				drops += p.C[link.DropQueue]
				if b := p.C.CBFC(); !c.errors && b[cbfc.CFStale]+b[cbfc.CCStale]+b[cbfc.LeakCredits]+b[cbfc.BackCredits]+b[cbfc.CFOff] != 0 {
					t.Errorf("%s: node %d port %d: counters %v", c.link, id, i, b)
				}
			}
		}
		if draining == 0 || (drops > 0) != c.lossy || len(f.results) == 0 {
			t.Errorf("%s: seen draining %d times, %d drops, %d results", c.link, draining, drops, len(f.results))
		}
		t.Logf("%s: seen draining %d times, %d drops", c.link, draining, drops)
	}
}

// TestCBFCSharedPool has paid frames and others in one shared memory that is far too small: what is paid for is let in all the same, and so nothing of it is lost or stands
// still; what is not finds the pool used up, as it would behind any other frames, and is lost beyond its queue's reserve. A reserve keeps ACKs.
func TestCBFCSharedPool(t *testing.T) {
	for _, c := range []struct {
		shared string
		drops  bool
	}{{"{size: 64KiB}", true}, {"{size: 640KiB, reserved: 16KiB}", false}, {"{size: 64KiB}, alone", false}} {
		shared, alone := strings.CutSuffix(c.shared, ", alone")
		text := creditedFile("cbfc: on")
		if alone {
			text = creditedFile("cbfc: {channels: [data, control]}")
		}
		text = strings.Replace(text, "trim: {enabled: false}", "trim: {enabled: false}, shared: "+shared, 1)
		plan, f := fromFile(t, text, nil)
		res, err := f.Run(spec(t, plan, workload.Incast, 1<<20, 1), t0, Options{})
		if err != nil || !*res.Correct || res.Trims != 0 || (res.Drops > 0) != c.drops {
			t.Errorf("shared %s: %d drops, %d trims, %v", c.shared, res.Drops, res.Trims, err)
		}
		for id, n := range f.nodes {
			for _, p := range n.Ports {
				if lost := p.Stats(1).C[link.QDrop]; lost != 0 {
					t.Errorf("shared %s: %s lost %d paid frames", c.shared, plan.Nodes[id].Name, lost)
				}
			}
		}
		t.Logf("shared %s: %v, %d drops, %d retransmissions", c.shared, time.Duration(res.FCT.Max), res.Drops, res.Retransmits)
	}
}

// TestCBFCSpuriousRetransmissions: where nothing is lost, what NSCC and REPS send again was inferred from packets that came first by other paths. Without inference nothing is
// sent again, and it takes no longer.
func TestCBFCSpuriousRetransmissions(t *testing.T) {
	file, err := os.ReadFile("../labs/data/incast12.cm")
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := matrix.Parse("incast12.cm", file, matrix.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ooo := range []string{"on", "off"} {
		plan, f := fromFile(t, "name: ls\nfabric: {kind: leaf-spine, spines: 3, leaves: 4, hostsPerLeaf: 3}\ndefaults: {fep: {cc: nscc, lb: reps, ack: packet, signals: {ooo: "+ooo+"}}, link: {cbfc: on}, switch: {trim: {enabled: false}}}\n", nil)
		res, err := f.Run(matrixSpec(plan, m, ""), t0, Options{})
		if err != nil || res.Drops != 0 || res.Trims != 0 {
			t.Fatalf("%d drops, %d trims, %v", res.Drops, res.Trims, err)
		}
		inferred := uint64(0)
		for _, n := range f.nodes {
			if n.FEP != nil {
				inferred += n.FEP.C[fep.RetxInfer]
			}
		}
		if res.Retransmits != inferred || (inferred > 0) != (ooo == "on") {
			t.Errorf("inference %s: %d retransmissions, %d of them inferred", ooo, res.Retransmits, inferred)
		}
		t.Logf("inference %s: %d retransmissions, slowest %v", ooo, res.Retransmits, time.Duration(res.FCT.Max))
	}
}
