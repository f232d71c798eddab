package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
	"github.com/uetlab/uetlab/wire"
	"github.com/uetlab/uetlab/workload"
)

// Code points of a fabric that is told nothing.
const (
	dscpData    = 10
	dscpRetx    = 12
	dscpTrimmed = 34
	dscpLastHop = 36
)

// threeTiers is a fat tree in which each end point gives a PDC one entropy value and has more under way than a queue
// holds: where two of them meet on an uplink, the edge trims.
const threeTiers = `name: three-tiers
fabric: {kind: fat-tree, k: 4}
defaults:
  fep: {lb: fixed, window: 400%}
`

// fromFile builds the fabric of a topology file. change may change the settings of switches before.
func fromFile(t testing.TB, text string, change func(set *switchd.Settings)) (*topology.Plan, *Fabric) {
	t.Helper()
	file, err := topology.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := topology.BuildPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plan.Nodes {
		if s := plan.Nodes[i].Switch; s != nil && change != nil {
			change(s)
		}
	}
	f, err := New(plan, 1)
	if err != nil {
		t.Fatal(err)
	}
	return plan, f
}

// passage is a frame that leaves a switch.
type passage struct {
	sw, port int
	frame    *link.Frame
	ip       []byte // the rest of the frame from the IP header on
	flow     wire.FlowKey
	dscp     uint8
}

func (p *passage) trimmed() bool { return p.dscp == dscpTrimmed || p.dscp == dscpLastHop }

// watch shows every frame that leaves a switch.
func watch(t testing.TB, plan *topology.Plan, f *Fabric, see func(p *passage)) {
	t.Helper()
	for sw := range plan.Nodes {
		if plan.Nodes[sw].Kind != topology.KindSwitch {
			continue
		}
		for port := range plan.Nodes[sw].Ports {
			f.Tap(sw, port, func(fr *link.Frame) {
				kind, ip, err := wire.Network(fr.B)
				flow, ok := wire.Flow(ip)
				if err != nil || kind != wire.EtherIPv4 || !ok {
					return // PFC
				}
				see(&passage{sw, port, fr, ip, flow, ip[1] >> 2})
			})
		}
	}
}

// toHost says whether a port of a switch leads to an end point.
func toHost(plan *topology.Plan, sw, port int) bool {
	return plan.Nodes[plan.Nodes[sw].Ports[port].Peer].Kind == topology.KindFEP
}

// at is a flow where a switch has a choice for it.
type at struct {
	sw   int
	flow wire.FlowKey
}

func permutation(t testing.TB, plan *topology.Plan, f *Fabric, size int64) workload.Result {
	t.Helper()
	res, err := f.Run(spec(t, plan, workload.Permutation, size, 3), t0, Options{})
	if err != nil || !*res.Correct {
		t.Fatalf("correct %v, %v", *res.Correct, err)
	}
	return res
}

// TRIM-07: what is trimmed at a port to an end point has the last hop's code point, what is trimmed before has the other
// and keeps it. An incast through three tiers congests both kinds of ports.
func TestTRIM07_AcrossAFabric(t *testing.T) {
	plan, f := fromFile(t, threeTiers, nil)
	left := map[int]map[uint8]uint64{} // by switch and port to an end point, or not
	count := func(key int, dscp uint8) {
		if left[key] == nil {
			left[key] = map[uint8]uint64{}
		}
		left[key][dscp]++
	}
	const fabric, host = 0, 1
	watch(t, plan, f, func(p *passage) {
		if !p.trimmed() {
			return
		}
		if toHost(plan, p.sw, p.port) {
			count(host, p.dscp)
		} else {
			count(fabric, p.dscp)
		}
	})
	if _, err := f.Run(spec(t, plan, workload.Incast, 500_000, 1), t0, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("between switches %v, to end points %v", left[fabric], left[host])
	if left[fabric][dscpTrimmed] == 0 || left[host][dscpTrimmed] == 0 || left[host][dscpLastHop] == 0 {
		t.Error("not all kinds of ports were congested")
	}
	if n := left[fabric][dscpLastHop]; n != 0 {
		t.Errorf("%d packets between switches have the last hop's code point", n)
	}
	// The receiver tells its peers which of the two it was.
	c := f.nodes[hosts(plan)[0]].FEP.C
	if c[fep.Trimmed] != left[host][dscpTrimmed]+left[host][dscpLastHop] || c[fep.NackTxTrim] != c[fep.Trimmed] {
		t.Errorf("%d trimmed packets received, %d NACKs", c[fep.Trimmed], c[fep.NackTxTrim])
	}
}

// TRIM-12: a trimmed packet takes the path that the whole one would have taken. Edges trim, and the switches behind them have
// two ways to choose from.
func TestTRIM12_SamePathAcrossAFabric(t *testing.T) {
	plan, f := fromFile(t, threeTiers, nil)
	type both struct{ whole, trimmed map[int]int }
	paths := map[at]*both{}
	watch(t, plan, f, func(p *passage) {
		k := at{p.sw, p.flow}
		b := paths[k]
		if b == nil {
			b = &both{map[int]int{}, map[int]int{}}
			paths[k] = b
		}
		if p.trimmed() {
			b.trimmed[p.port]++
		} else {
			b.whole[p.port]++
		}
	})
	permutation(t, plan, f, 1<<20)
	compared, aggs, uplinks := 0, 0, map[int]bool{}
	for k, b := range paths {
		if len(b.trimmed) == 0 || len(b.whole) == 0 {
			continue
		}
		compared++
		for port := range b.trimmed {
			if plan.Nodes[k.sw].Tier == 2 && port >= 2 { // an agg to a core
				aggs++
				uplinks[k.sw*64+port] = true
			}
			if len(b.trimmed) > 1 || len(b.whole) > 1 || b.whole[port] == 0 {
				t.Errorf("%s, flow %x: whole packets by ports %v, trimmed by %v", plan.Nodes[k.sw].Name, k.flow, b.whole, b.trimmed)
			}
		}
	}
	t.Logf("%d flows and switches compared, %d where a switch chose for a packet that was trimmed before, over %d uplinks", compared, aggs, len(uplinks))
	if aggs < 3 || len(uplinks) < 2 {
		t.Error("nothing was trimmed before a choice")
	}
}

// TRIM-14: switches that leave the IP length as it was. Trimmed packets pass two more switches, the receiver answers each
// with a NACK, and its source sends it again within two round trips.
func TestTRIM14_StaleIPLengthEndToEnd(t *testing.T) {
	for _, c := range []struct {
		name, file, workload string
	}{{"incast on one switch", "name: one\nfabric: {kind: star, hosts: 9}\n", workload.Incast}, {"uplinks of three tiers", threeTiers, workload.Permutation}} {
		plan, f := fromFile(t, c.file, func(set *switchd.Settings) { set.Trim.FixIP = false })
		stale, right := 0, 0
		watch(t, plan, f, func(p *passage) {
			if !p.trimmed() {
				return
			}
			ip := wire.IPv4(p.ip)
			if !ip.ChecksumOK() {
				t.Errorf("%s: checksum of a trimmed packet is wrong: % x", c.name, p.ip)
			}
			if ip.TotalLen() > len(p.ip) {
				stale++
			} else {
				right++
			}
		})
		res, err := f.Run(spec(t, plan, c.workload, 1<<20, 3), t0, Options{})
		if err != nil || !*res.Correct {
			t.Fatalf("%s: correct %v, %v", c.name, *res.Correct, err)
		}
		var got, nacks, timeouts uint64
		for _, id := range hosts(plan) {
			n := &f.nodes[id].FEP.C
			got, nacks, timeouts = got+n[fep.Trimmed], nacks+n[fep.NackTxTrim], timeouts+n[fep.RTO]
		}
		t.Logf("%s: %d trimmed packets on links, %d received, %d NACKs, slowdown %.2f", c.name, stale, got, nacks, res.Ratio)
		if stale == 0 || right != 0 || got == 0 || nacks != got || res.Drops != 0 && timeouts == 0 {
			t.Errorf("%s: IP length stale in %d trimmed packets, right in %d; %d received, %d NACKs", c.name, stale, right, got, nacks)
		}
	}
}

// ECMP-03: one entropy value, one path while the members are the same: 100 000 choices of every kind of group.
func TestECMP03_SamePathAcrossAFabric(t *testing.T) {
	for _, group := range []string{switchd.GroupThreshold, switchd.GroupModulo, switchd.GroupResilient} {
		plan, f := fromFile(t, threeTiers, func(set *switchd.Settings) {
			set.ECMP.Group, set.ECMP.IdleTimer = group, time.Microsecond
		})
		first, chosen := map[at]int{}, 0
		watch(t, plan, f, func(p *passage) {
			k := at{p.sw, p.flow}
			was, met := first[k]
			if met && was != p.port {
				t.Fatalf("%s: %s sends flow %x by port %d, and by %d before", group, plan.Nodes[p.sw].Name, p.flow, p.port, was)
			}
			first[k] = p.port
			chosen++
		})
		permutation(t, plan, f, 5<<19)
		if chosen < 100_000 {
			t.Errorf("only %d packets", chosen)
		}
	}
}

// ECMP-06: the path does not depend on DSCP, ECN marks, length or CSIG tags: flows whose packets differ in all of these, in
// two runs that differ in the tags.
func TestECMP06_PathIgnoresWhatChanges(t *testing.T) {
	var first map[at]int
	for _, csig := range []string{"off", "compact", "wide"} {
		plan, f := fromFile(t, strings.Replace(threeTiers, "400%", "400%, csig: "+csig, 1)+"  switch: {csig: {enabled: true}}\n", nil)
		paths := map[at]int{}
		dscps, ecns, lengths, tags := map[uint8]int{}, map[uint8]int{}, map[int]int{}, 0
		watch(t, plan, f, func(p *passage) {
			k := at{p.sw, p.flow}
			if was, met := paths[k]; met && was != p.port {
				t.Errorf("CSIG %s: %s sends flow %x by ports %d and %d", csig, plan.Nodes[p.sw].Name, p.flow, was, p.port)
			}
			paths[k] = p.port
			dscps[p.dscp]++
			ecns[p.ip[1]&3]++
			lengths[len(p.ip)]++
			if len(p.frame.B)-len(p.ip) > wire.EthLen {
				tags++
			}
		})
		permutation(t, plan, f, 1_000_001)
		if dscps[dscpData] == 0 || dscps[dscpRetx] == 0 || dscps[dscpTrimmed] == 0 || ecns[wire.ECNCE] == 0 || len(ecns) < 2 || len(lengths) < 3 || (tags > 0) != (csig != "off") {
			t.Errorf("CSIG %s: packets are too much alike: DSCPs %v, ECN %v, lengths %v, %d tags", csig, dscps, ecns, lengths, tags)
		}
		if first == nil {
			first = paths
		}
		same := 0
		for k, port := range paths {
			if was, met := first[k]; met {
				same++
				if was != port {
					t.Errorf("CSIG %s: %s sends flow %x by port %d, without tags by %d", csig, plan.Nodes[k.sw].Name, k.flow, port, was)
				}
			}
		}
		if same < 50 {
			t.Errorf("CSIG %s: only %d flows of both runs", csig, same)
		}
	}
}
