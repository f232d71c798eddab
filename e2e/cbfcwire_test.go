package e2e

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// Requirements of credit-based flow control (uet-link-switch.md, section 15) on a real lab: what passed the veth pairs, counted in credits.

// creditStar has credits on all links, room for what a hundred lost frames cost on that of host1, and LLR on that of host2.
const creditStar = `name: creditstar
fabric: {kind: star, hosts: 8}
defaults:
  link: {cbfc: {ccEvery: 20us}}
  switch: {trim: {enabled: false}}
links:
  - {endpoints: [host1, leaf0], cbfc: {limit: 3MiB}}
  - {endpoints: [host2, leaf0], llr: on}
`

// account follows the credits of one direction of a link by what has passed.
type account struct {
	vcs   *cbfc.Map
	cell  cbfc.Cell
	vc    uint8
	limit uint32
}

func (l *lab) account(t testing.TB, link string) account {
	t.Helper()
	id, _, err := l.plan.FindLink(link)
	if err != nil {
		t.Fatal(err)
	}
	p := &l.plan.Links[id].CBFC.Profile
	return account{cbfc.NewMap(p), cbfc.CellOf(p), p.VCs[0].Index, p.VCs[0].Limit}
}

// cost is what a frame costs on the lossless channel.
func (a *account) cost(f *onWire) uint32 {
	if a.vcs.VC(f.b) != a.vc {
		return 0
	}
	return a.cell.Credits(len(f.b))
}

// update gives what a CC_Update says was used on the channel.
func (a *account) update(f *onWire) (n uint32, ok bool) {
	if wire.EtherType(uint16(f.b[12])<<8|uint16(f.b[13])) != wire.EtherMACControl {
		return 0, false
	}
	u, err := wire.ParseCCUpdate(f.b[wire.EthLen:])
	if err != nil || u.Validate() != nil || u.Type() != 1 {
		return 0, false
	}
	return u.Count(int(a.vc)), true
}

// freed gives what the last CF_Update of a frame says was freed on the channel.
func (a *account) freed(f *onWire) (n uint32, ok bool) {
	for _, s := range f.sets() {
		if s.Type() != wire.CtlOSCFUpdate {
			continue
		}
		first, second := s.CF()
		for _, e := range []wire.CFEntry{first, second} {
			if e.VC == a.vc {
				n, ok = uint32(e.Count), true
			}
		}
	}
	return n, ok
}

func atHost(n int, set string) string {
	return fmt.Sprintf("at: +0, link: host%d-leaf0, from: host%d, set: '%s'", n, n, set)
}

// choked is a flow whose switch cannot free anything for 300 us, since it hears of no credits of its own.
func choked(t *testing.T) (x passage, a account, used, freed, peak uint32, pause int64) {
	t.Helper()
	l := keptLab(t, "creditstar", creditStar)
	x = l.passes(t, "host3-leaf0", "at: +20us, link: host0-leaf0, from: host0, set: 'setloss=100%,cf'\nat: +320us, link: host0-leaf0, set: setloss=off", "2ms", flow(t, 8, 3, 0, 4<<20)...)
	a = l.account(t, "host3-leaf0")
	last := int64(0)
	for i := range x.frames {
		f := &x.frames[i]
		if n, ok := a.freed(f); ok && f.from == "leaf0" {
			freed += (n - freed) & 0x7FFF
		}
		if n := a.cost(f); f.from == "host3" && n > 0 {
			used += n
			if last > 0 {
				pause = max(pause, f.due-last)
			}
			last = f.due
		}
		peak = max(peak, used-freed)
	}
	return x, a, used, freed, peak, pause
}

// CBFC-02: a receiver that frees nothing gets no more than the limit, and then nothing.
func TestCBFC02_SilenceWithoutCredits(t *testing.T) {
	x, a, _, _, peak, pause := choked(t)
	t.Logf("%d of %d credits out at most, silent for %d ns", peak, a.limit, pause)
	if peak > a.limit || a.limit-peak > 2*a.cell.Credits(4500) || pause < 250_000 || x.gained["host0 eth1 lost_ordered_sets"] == 0 {
		t.Errorf("%d ordered sets lost", x.gained["host0 eth1 lost_ordered_sets"])
	}
}

// CBFC-03: when it frees again all arrives.
func TestCBFC03_TrafficResumes(t *testing.T) {
	x, a, used, freed, _, _ := choked(t)
	data := len(x.pick("host3", func(f *onWire) bool { return a.cost(f) > 1 }))
	if used != freed || data < 1024 || x.gained["host0 eth1 rx_data_frames"] != uint64(data) || x.res.Drops != 0 || x.res.Trims != 0 {
		t.Errorf("%d credits used, %d freed; %d of %d packets came, %d drops", used, freed, x.gained["host0 eth1 rx_data_frames"], data, x.res.Drops)
	}
}

// CBFC-06: nine of ten CF_Updates may be lost; when they come again the line is full within their largest distance, 5.2 us, and a round trip.
func TestCBFC06_LostCFUpdates(t *testing.T) {
	l := keptLab(t, "creditstar", creditStar)
	const muted = 100_000
	x := l.passes(t, "host4-leaf0", "at: +0, link: host4-leaf0, from: leaf0, set: 'setloss=90%,cf'\nat: +100us, link: host4-leaf0, set: setloss=off", "1ms", flow(t, 8, 4, 0, 4<<20)...)
	a := l.account(t, "host4-leaf0")
	data := x.pick("host4", func(f *onWire) bool { return a.cost(f) > 1 })
	before, after, gap := 0, 0, int64(0)
	for i, f := range data {
		switch at := f.due - data[0].due; {
		case at < muted:
			before++
		case at > muted+8000:
			after++
			gap = max(gap, f.due-data[i-1].due)
		}
	}
	lost, passed := x.gained["leaf0 eth5 lost_ordered_sets"], len(x.sets("leaf0", wire.CtlOSCFUpdate))
	t.Logf("%d CF_Updates lost, %d passed; %d frames meanwhile, %d after, at most %d ns apart", lost, passed, before, after, gap)
	if lost < 10 || before > 600 || after < 300 || gap > 1000 || x.res.Drops != 0 {
		t.Errorf("lost CF_Updates do harm: %d drops", x.res.Drops)
	}
	x.whole(true)
}

// CBFC-07: what a hundred broken frames cost comes back with the CC_Update, and not before.
func TestCBFC07_LeakOnTheWire(t *testing.T) {
	l := keptLab(t, "creditstar", creditStar)
	x := l.passes(t, "host1-leaf0", atHost(1, "ccloss=100% exact=101-200:corrupt-payload")+"\nat: +1ms, link: host1-leaf0, from: host1, set: ccloss=off", "4ms", flow(t, 8, 1, 0, 4<<20)...)
	a := l.account(t, "host1-leaf0")
	var used, good, before, after, told uint32
	bad := 0
	for i := range x.frames {
		f := &x.frames[i]
		if n := a.cost(f); f.from == "host1" && n > 0 {
			used += n
			if f.fcs == 0 {
				good += n
			} else {
				bad++
			}
		}
		if n, ok := a.update(f); ok && f.from == "host1" {
			told = n
		}
		if n, ok := a.freed(f); ok && f.from == "leaf0" {
			if after = n; told == 0 {
				before = n
			}
		}
	}
	t.Logf("%d credits used, %d of good frames; freed %d, at last %d", used, good, before, after)
	if bad != 100 || before != good&0x7FFF || told != used || after != used&0x7FFF {
		t.Errorf("%d broken frames, the CC_Update says %d", bad, told)
	}
	if n := x.gained["host1 eth1 drop_cc_update"]; n == 0 || x.gained["leaf0 eth2 cbfc_leak_recovered_credits"] != uint64(used-good) {
		t.Errorf("%d CC_Updates lost, %d credits recovered", n, x.gained["leaf0 eth2 cbfc_leak_recovered_credits"])
	}
}

// CBFC-08: the octets of a CC_Update.
func TestCBFC08_OctetsOfACCUpdate(t *testing.T) {
	l := keptLab(t, "creditstar", creditStar)
	x := l.passes(t, "host5-leaf0", "", "", flow(t, 8, 5, 0, 4<<20)...)
	a := l.account(t, "host5-leaf0")
	used, n := uint32(0), 0
	id, _, _ := l.plan.FindLink("host5-leaf0")
	end := l.plan.Links[id].A
	if l.plan.Nodes[end.Node].Name != "host5" {
		end = l.plan.Links[id].B
	}
	mac := l.plan.Nodes[end.Node].Ports[end.Port].MAC
	for i := range x.frames {
		f := &x.frames[i]
		if f.from != "host5" {
			continue
		}
		used += a.cost(f)
		if _, ok := a.update(f); !ok {
			continue
		}
		n++
		golden := append([]byte{0x01, 0x80, 0xC2, 0, 0, 1}, mac[:]...)
		golden = append(golden, 0x88, 0x08, 0xFF, 0xFE, 0xFA, 0x7A, 0xCB, 0x01)
		counters := make([]byte, 40)
		for bit := range 20 { // most significant first, 20 bits for each channel
			if used>>(19-bit)&1 != 0 {
				at := 20*int(a.vc) + bit
				counters[at/8] |= 0x80 >> (at % 8)
			}
		}
		if golden = append(golden, counters...); !bytes.Equal(f.b, golden) || f.fcs != 0 {
			t.Fatalf("after %d credits a CC_Update is\n% x, not\n% x", used, f.b, golden)
		}
	}
	if n == 0 {
		t.Error("no CC_Update in the capture")
	}
}

// CBFC-11: what LLR sends once more is paid for once: each CC_Update has a number of its own, and tells what the frames numbered before it cost.
func TestCBFC11_ReplaysCostNothing(t *testing.T) {
	l := keptLab(t, "creditstar", creditStar)
	x := l.passes(t, "host2-leaf0", atHost(2, "loss=5%"), "1ms", flow(t, 8, 2, 0, 4<<20)...)
	a := l.account(t, "host2-leaf0")
	var costs, updates = map[uint32]uint32{}, map[uint32]uint32{}
	for _, f := range x.pick("host2", (*onWire).numbered) {
		costs[f.seq()] = a.cost(f)
		if n, ok := a.update(f); ok {
			updates[f.seq()] = n
		}
	}
	used := uint32(0)
	for seq := range uint32(len(costs)) {
		if _, ok := costs[seq]; !ok {
			t.Fatalf("number %d has never passed", seq)
		}
		if n, ok := updates[seq]; ok && n != used {
			t.Errorf("CC_Update %d says %d, the frames before it cost %d", seq, n, used)
		}
		used += costs[seq]
	}
	if len(updates) < 3 || x.gained["host2 eth1 llr_tx_replay"] < 10 {
		t.Errorf("%d CC_Updates, %d replays", len(updates), x.gained["host2 eth1 llr_tx_replay"])
	}
	x.whole(true)
}

// CBFC-15: seven to one, not one packet lost, and the figures of the simulation.
func TestCBFC15_IncastLosesNothing(t *testing.T) {
	l := keptLab(t, "creditstar", creditStar)
	l.freeClock(t)
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Incast, Size: 256 << 10, Iters: 1, Check: true, Seed: 1}, nil)
	res := l.run(t, "incast", "--size", "256KiB", "--check", "--seed", "1")
	same(t, "an incast with credits", res, want)
	if res.Drops != 0 || res.Trims != 0 || res.Retransmits != 0 {
		t.Errorf("%d drops, %d trims, %d retransmits", res.Drops, res.Trims, res.Retransmits)
	}
	t.Logf("slowest flow %d ns, fastest %d ns", res.FCT.Max, res.FCT.Min)
}

// harming does everything that hits chosen frames and kinds of frames, on links with and without LLR.
const harming = `
name: harming
steps:
  - {at: +0, link: host2-leaf0, set: "corrupt=1%,llr poison=0.5% exact=20:drop,30:seqskip,40:seqdup,50:duplicate,1r:corrupt setloss=20%"}
  - {at: +5us, link: "host[345]-leaf0", set: "ccloss=50% setloss=30%,cf corrupt=1%,payload,3bits exact=7-9:poison"}
  - {at: +9us, link: host6-leaf0, set: "corrupt=2%,header"}
`

// TestHarmEqualsTheSimulation: chosen frames and kinds of frames are hit alike in a lab and in the simulator.
func TestHarmEqualsTheSimulation(t *testing.T) {
	l := keptLab(t, "creditstar", creditStar)
	l.freeClock(t)
	t.Cleanup(func() { l.heal(t) })
	spec := workload.Spec{Workload: workload.Alltoall, Size: 256 << 10, Iters: 1, Check: true, Seed: 1}
	calm, want := simulate(t, &l.plan, spec, nil), simulate(t, &l.plan, spec, storming(t, l, harming))
	if want.FCT == calm.FCT || want.Drops == 0 || want.Correct != "true" {
		t.Fatalf("the script does too little: %+v", want)
	}
	before := l.counters(t)
	l.ok(t, "chaos", write(t, harming))
	same(t, "a run with chosen frames hit", l.run(t, "alltoall", "--size", "256KiB", "--check", "--seed", "1"), want)
	gained := minus(l.counters(t), before)
	for _, c := range []string{"drop_exact", "drop_poisoned", "drop_preamble", "drop_fcs", "drop_cc_update", "lost_ordered_sets", "tx_duplicates"} {
		if sum(gained, func(_, _, counter string) bool { return counter == c }) == 0 {
			t.Errorf("no %s", c)
		}
	}
}
