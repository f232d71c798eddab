package sim

import (
	"math"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// twoSpines has one link from leaf0 to each spine, 400 Gb/s unless said otherwise.
const twoSpines = "name: two-spines\nfabric: {kind: leaf-spine, spines: 2, leaves: 2, hostsPerLeaf: 4}\n"

// In a three-tier fat tree an entropy value is a choice of a core: the same value takes the same way, another one probably
// another way, and several share each, since there are many more values than ways. On the way down nothing is left to choose.
func TestEntropyValueChoosesTheCore(t *testing.T) {
	plan, f := build(t, "fat-tree-k4")
	type pair struct{ src, dst [4]byte }
	type down struct {
		sw  int
		dst [4]byte
	}
	cores, ports, exits := map[pair]map[uint16]int{}, map[int]int{}, map[down]int{}
	watch(t, plan, f, func(p *passage) {
		if wire.UDP(p.ip[20:]).DstPort() != wire.UDPPort || p.frame.Queue != 1 {
			return
		}
		from, to := plan.Nodes[p.sw], plan.Nodes[plan.Nodes[p.sw].Ports[p.port].Peer]
		k := pair{[4]byte(p.ip[12:16]), [4]byte(p.ip[16:20])}
		switch {
		case from.Tier < to.Tier && to.Tier == 3:
			ev := wire.UDP(p.ip[20:]).SrcPort()
			if cores[k] == nil {
				cores[k] = map[uint16]int{}
			}
			if was, met := cores[k][ev]; met && was != to.ID {
				t.Errorf("EV %d of %v goes by core %d and core %d", ev, k, was, to.ID)
			}
			cores[k][ev] = to.ID
			ports[to.ID]++
		case from.Tier > to.Tier || to.Kind == topology.KindFEP:
			d := down{p.sw, k.dst}
			if was, met := exits[d]; met && was != p.port {
				t.Errorf("%s has two ways down to %v", from.Name, k.dst)
			}
			exits[d] = p.port
		}
	})
	permutation(t, plan, f, 2<<20)
	same, all, crowded := 0, 0, 0
	for _, evs := range cores {
		by := map[int]int{}
		for _, core := range evs {
			by[core]++
		}
		for _, n := range by {
			same += n * (n - 1) / 2
			if n > 1 {
				crowded++
			}
		}
		all += len(evs) * (len(evs) - 1) / 2
	}
	share := float64(same) / float64(all)
	t.Logf("%d pairs of end points over %d cores; two EVs have the same core with probability %.3f; %d ways down", len(cores), len(ports), share, len(exits))
	if len(ports) != 4 || len(cores) < 8 || len(exits) == 0 {
		t.Fatal("too little traffic between pods to tell")
	}
	if math.Abs(share-0.25) > 0.02 {
		t.Errorf("two EVs share a core with probability %.3f, not 1/4", share)
	}
	if crowded == 0 {
		t.Error("no two EVs share a core")
	}
}

// Where the switch sprays, the entropy value says nothing: packets of one value take all ways, and a sender cannot choose or
// avoid one. Where it hashes, a sender that keeps its value keeps its way.
func TestSwitchSprayingTakesTheChoiceFromTheSender(t *testing.T) {
	took := map[string]int64{}
	for _, balance := range []string{switchd.BalanceHash, switchd.BalanceRandom, switchd.BalanceRR, switchd.BalanceAdaptive} {
		plan, f := fromFile(t, fourSpines, func(set *switchd.Settings) { set.ECMP.Balance = balance })
		ways := map[at]map[int]bool{}
		watch(t, plan, f, func(p *passage) {
			if plan.Nodes[plan.Nodes[p.sw].Ports[p.port].Peer].Tier != 2 || p.frame.Queue != 1 {
				return
			}
			k := at{p.sw, p.flow}
			if ways[k] == nil {
				ways[k] = map[int]bool{}
			}
			ways[k][p.port] = true
		})
		took[balance] = permutation(t, plan, f, 1<<20).FCT.Max
		for k, w := range ways {
			if want := map[bool]int{true: 1, false: 4}[balance == switchd.BalanceHash]; len(w) != want {
				t.Errorf("%s: a flow leaves %s by %d ways, not %d", balance, plan.Nodes[k.sw].Name, len(w), want)
			}
		}
		if len(ways) < 4 {
			t.Errorf("%s: only %d flows", balance, len(ways))
		}
	}
	t.Logf("permutation of 1 MiB, one EV a PDC: %v ns", took)
	for _, balance := range []string{switchd.BalanceRandom, switchd.BalanceRR, switchd.BalanceAdaptive} {
		if took[balance] >= took[switchd.BalanceHash] {
			t.Errorf("%s takes %d ns; flows that collide take %d", balance, took[balance], took[switchd.BalanceHash])
		}
	}
}

// spines counts the data packets that a leaf sends to each spine, whole or trimmed there: what its choice was.
func spines(t testing.TB, plan *topology.Plan, f *Fabric, leaf string) map[string]int {
	n := map[string]int{}
	watch(t, plan, f, func(p *passage) {
		if up := plan.Nodes[plan.Nodes[p.sw].Ports[p.port].Peer]; up.Tier == 2 && plan.Nodes[p.sw].Name == leaf && (p.frame.Queue == 1 || p.frame.Queue == 2) {
			n[up.Name]++
		}
	})
	return n
}

// With weights by rate a path that is twice as fast gets twice the packets, packet by packet; with equal weights it gets as
// many as the other, and all end when the slow one does.
func TestFasterPathGetsMorePackets(t *testing.T) {
	var took [2]int64
	for i, c := range []struct {
		weights string
		ratio   float64
	}{{switchd.WeightsEqual, 1}, {switchd.WeightsRate, 2}} {
		plan, f := fromFile(t, twoSpines+"defaults: {fep: {cc: fixed, lb: spray}}\nlinks:\n- {endpoints: [leaf0, spine1], rate: 800Gbps}\n- {endpoints: [leaf1, spine1], rate: 800Gbps}\n",
			func(set *switchd.Settings) { set.ECMP.Weights = c.weights })
		n := spines(t, plan, f, "leaf0")
		res, err := f.Run(spec(t, plan, workload.Alltoall, 8<<20, 1), t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("correct %v, %v", *res.Correct, err)
		}
		ratio := float64(n["spine1"]) / float64(n["spine0"])
		took[i] = res.FCT.Max
		t.Logf("weights %s: %v, ratio %.3f, %v", c.weights, n, ratio, time.Duration(res.FCT.Max))
		if math.Abs(ratio/c.ratio-1) > 0.1 {
			t.Errorf("weights %s: the path of 800 Gb/s gets %.3f times the packets of that of 400, not %v", c.weights, ratio, c.ratio)
		}
	}
	if took[1] >= took[0] {
		t.Errorf("with weights by rate it takes %d ns, with equal ones %d", took[1], took[0])
	}
}

// A slow link on the way up is seen by the switch that has the choice, and it sends less there. On the way down there is no
// choice left, and the leaf that could avoid it does not know: only the end points can learn of it (here they do not).
func TestSlowLinkOnTheWayDown(t *testing.T) {
	type outcome struct {
		share float64 // of leaf0's packets that go by spine0
		took  time.Duration
	}
	run := func(from, to string) outcome {
		plan, f := fromFile(t, twoSpines+"defaults: {fep: {cc: fixed, lb: spray}}\n", func(set *switchd.Settings) { set.ECMP.Weights = switchd.WeightsRate })
		if from != "" {
			slow(t, plan, f, from, to, 0.25)
		}
		n := spines(t, plan, f, "leaf0")
		res, err := f.Run(spec(t, plan, workload.Alltoall, 8<<20, 1), t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("correct %v, %v", *res.Correct, err)
		}
		return outcome{float64(n["spine0"]) / float64(n["spine0"]+n["spine1"]), time.Duration(res.FCT.Max)}
	}
	healthy, up, down := run("", ""), run("leaf0", "spine0"), run("spine0", "leaf1")
	t.Logf("healthy %.3f by spine0, %v; slow on the way up %.3f, %v; on the way down %.3f, %v", healthy.share, healthy.took, up.share, up.took, down.share, down.took)
	if math.Abs(up.share-0.2) > 0.03 {
		t.Errorf("a quarter of the rate is left on the way up, and %.3f of the packets go there, not a fifth", up.share)
	}
	if math.Abs(down.share-0.5) > 0.03 || math.Abs(healthy.share-0.5) > 0.03 {
		t.Errorf("leaf0 sends %.3f by spine0 (healthy: %.3f): it cannot know what is wrong behind", down.share, healthy.share)
	}
	if down.took <= healthy.took || up.took <= healthy.took {
		t.Error("a slow link costs nothing: the test shows nothing")
	}
}

// slow leaves a direction of a link a share of its rate, from before the run on.
func slow(t testing.TB, plan *topology.Plan, f *Fabric, from, to string, share float64) {
	t.Helper()
	impair(t, plan, f, from, to, link.Impair{Rate: share})
}

func impair(t testing.TB, plan *topology.Plan, f *Fabric, from, to string, what link.Impair) {
	t.Helper()
	for _, n := range plan.Nodes {
		for i, p := range n.Ports {
			if n.Name == from && plan.Nodes[p.Peer].Name == to {
				if err := f.Change(n.ID, ctl.Change{At: vt.Time(500), Port: i, Impair: &what}); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	t.Fatalf("there is no link from %s to %s", from, to)
}
