package topology

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// BuildPlan works a topology out. The error, if any, is Problems: everything wrong with it at once.
func BuildPlan(s *Spec) (*Plan, error) {
	d := newDraft(s)
	if len(d.problems) == 0 {
		d.checkRanges()
	}
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	p := d.plan()
	d.checkFEPs(p)
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// checkRanges guards against a Spec that no file could have given.
func (d *draft) checkRanges() {
	if !labName.MatchString(d.spec.Name) {
		d.problem(d.spec.at(&d.spec.Name), "name", d.spec.Name, "not a lab name", "small letters, digits and -, at most 31, e.g. my-lab")
	}
	for _, l := range d.links {
		p := l.effective()
		if p.Rate < minRate || p.Rate > maxRate || p.Delay < minDelay || p.Delay > maxDelay || p.MTU < minMTU || p.MTU > maxMTU {
			d.problem(l.at, "link", l.ends[0].node.name+"-"+l.ends[1].node.name, "rate, delay or mtu out of range", rangeHint)
		}
	}
}

func (l *draftLink) effective() LinkParams {
	return l.params.over(LinkParams{Rate: defaultRate, Delay: defaultDelay, MTU: defaultMTU})
}

// plan turns a draft without problems into a Plan.
func (d *draft) plan() *Plan {
	p := &Plan{Name: d.spec.Name, Convergence: defaultConvergence, DSCP: d.spec.DSCP.plan()}
	if c := d.spec.Routing.Convergence; c != nil {
		p.Convergence = *c
	}
	for i, n := range d.nodes {
		n.id = i
		p.Nodes = append(p.Nodes, n.plan())
	}
	d.planLinks(p)
	d.address(p)
	p.PayloadMTU = payloadMTU(p)
	p.BaseRTT = baseRTT(p)
	p.BDP = mulDiv(pointRate(p), int64(p.BaseRTT), 8*int64(time.Second))
	d.planSizes(p)
	d.planCBFC(p)
	d.planMiswired(p)
	d.planWishes(p)
	return p
}

func (n *draftNode) plan() Node {
	node := Node{ID: n.id, Name: n.name, Kind: n.kind, Tier: n.tier, Ports: make([]Port, len(n.ports))}
	switch n.kind {
	case KindSwitch:
		node.Latency = defaultLatency
		if n.sw.Latency != nil {
			node.Latency = *n.sw.Latency
		}
		node.Seed = seedOf(n.name)
		if n.seed != nil {
			node.Seed = *n.seed
		}
	case KindFEP:
		node.FEP = &FEPConfig{CC: DefaultCC, LB: defaultLB, CSIG: wordOff}
		n.fep.semantics(node.FEP)
	case KindHost:
		node.Image, node.Command = n.host.Image, n.host.Command
	}
	return node
}

// planLinks gives links their names and ports their links.
func (d *draft) planLinks(p *Plan) {
	count := map[string]int{}
	for i, l := range d.links {
		a, b := l.ends[0], l.ends[1]
		if a.node.tier > b.node.tier || a.node.tier == b.node.tier && a.node.id > b.node.id {
			a, b = b, a
		}
		name := a.node.name + "-" + b.node.name
		count[name]++
		if n := count[name]; n > 1 {
			name += "#" + strconv.Itoa(n)
		}
		lp := l.effective()
		ends := [2]End{{a.node.id, a.port - 1}, {b.node.id, b.port - 1}}
		p.Links = append(p.Links, Link{ID: i, Name: name, A: ends[0], B: ends[1], LLDP: lp.LLDP == lldpOn || lp.LLDP == lldpStatic, Rate: lp.Rate, Delay: lp.Delay, MTU: lp.MTU})
		for j, e := range ends {
			far := ends[1-j]
			p.Nodes[e.Node].Ports[e.Port] = Port{
				Name: fmt.Sprintf("eth%d", e.Port+1), MAC: macOf(e.Node, e.Port), Link: i,
				Peer: far.Node, PeerIdx: far.Port, LLDP: lp.LLDP == lldpOn || lp.LLDP == lldpStatic, Rate: lp.Rate, Delay: lp.Delay, MTU: lp.MTU,
			}
		}
		p.planLLR(&p.Links[i], &lp)
	}
}

// planSizes sets what is counted in plane BDPs.
func (d *draft) planSizes(p *Plan) {
	for i, n := range d.nodes {
		node := &p.Nodes[i]
		queue := p.BDP * autoBuffer
		if n.kind == KindSwitch {
			settled := d.settle(p, n)
			d.checkSwitch(n, settled)
			node.Switch = &settled.s
			queue = node.Switch.Queues[queueData].Limit
		}
		for j := range node.Ports {
			node.Ports[j].Queue = queue
		}
		if node.FEP != nil {
			node.FEP.Window = p.BDP
			n.fep.manage(node.FEP, p.BDP)
		}
	}
}

// checkFEPs wants the parameters of each end point's congestion management to go together.
func (d *draft) checkFEPs(p *Plan) {
	for i, n := range d.nodes {
		if p.Nodes[i].FEP == nil {
			continue
		}
		if key, value, why := p.Nodes[i].FEP.wrong(p.Around(i)); why != "" {
			why, hint, _ := strings.Cut(why, "; ")
			d.problem(d.whereFEP(n, key), n.name+"."+key, value, why, hint)
			return // one wrong default would repeat for each node
		}
	}
}

// whereFEP finds the place that set a key of node n: the last of the entries that name it, else the default.
func (d *draft) whereFEP(n *draftNode, key string) (at position) {
	look := func(p *FEPParams) {
		if f, ok := find(p.fields(), key); ok {
			if _, set := f.to.print(); set {
				at = d.spec.at(f.to.pointer())
			}
		}
	}
	look(&d.spec.Defaults.FEP)
	for _, s := range d.entriesOf(n) {
		look(&s.FEPParams)
	}
	return at
}

// entriesOf lists the entries of nodes that name n, the one that wins last.
func (d *draft) entriesOf(n *draftNode) []*NodeSpec {
	var entries []*NodeSpec
	for _, globs := range []bool{true, false} {
		for _, s := range d.spec.Nodes {
			if isGlob(s.Name) == globs && (draftEnd{node: n}).matches(s.Name, 0) {
				entries = append(entries, s)
			}
		}
	}
	return entries
}

// seedOf derives a switch's hash seed from its name (FNV-1a, then mixed so that near names give far seeds).
func seedOf(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// mulDiv gives a·b/c rounded up, at most the largest int64. a and b must not be negative.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	hi += carry
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
