package workload

import (
	"fmt"
	"math"
	"slices"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
)

// Bytes on the line (uet-wire.md): Ethernet 14, IPv4 20, UDP 8, PDS request 12 and SES standard header 44 about every
// piece of payload; an ACK without SES header is shorter than the smallest frame. To both come 4 bytes FCS, 8 preamble and 12
// gap. IPv6, security headers and congestion-control fields only add to this.
const (
	dataHeader = 14 + 20 + 8 + 12 + 44
	minFrame   = 60
	lineExtra  = 4 + 8 + 12
	ackLine    = minFrame + lineExtra
)

const (
	psPerNs  = 1000
	psBits   = 8_000_000_000_000 // picoseconds times bits per byte
	farAway  = math.MaxInt64 / 4
	lenCache = 64 // distance tables kept per packet length before the cache is emptied
)

// dataLine is what a packet with n bytes of payload takes on the line, bytes.
func dataLine(n int64) int64 { return max(n+dataHeader, minFrame) + lineExtra }

// linePs is how long b bytes of line take at rate bits per second, picoseconds, rounded down.
func linePs(b, rate int64) int64 {
	if b < math.MaxInt64/psBits {
		return b * psBits / rate
	}
	return int64(float64(b) / float64(rate) * psBits)
}

// message is how a transfer of some size falls into packets: full ones, then the last.
type message struct {
	packets int64
	full    int64 // line bytes of the first packet
	last    int64 // of the last one
	line    int64 // of all
}

func split(size int64, mtu int) message {
	m := int64(mtu)
	k := max(1, (size+m-1)/m)
	t := message{packets: k, last: dataLine(size - (k-1)*m)}
	t.full = t.last
	if k > 1 {
		t.full = dataLine(m)
	}
	t.line = (k-1)*t.full + t.last
	return t
}

type edge struct {
	peer  int
	rate  int64
	fixed int64 // propagation and the receiving node's latency, ps
}

// paths knows how soon a packet of some length can cross an idle fabric, by whatever way.
type paths struct {
	nodes   []topology.Node
	out     [][]edge
	dist    map[[2]int64][]int64 // (source, line bytes) → ps to every node
	hostOut []int64              // sum of the rates of a node's ports
	fastest []int64              // the fastest of them
}

func newPaths(plan *topology.Plan) *paths {
	n := len(plan.Nodes)
	p := &paths{nodes: plan.Nodes, out: make([][]edge, n), dist: map[[2]int64][]int64{},
		hostOut: make([]int64, n), fastest: make([]int64, n)}
	for i, node := range plan.Nodes {
		for _, port := range node.Ports {
			peer := plan.Nodes[port.Peer]
			p.out[i] = append(p.out[i], edge{port.Peer, port.Rate, int64(port.Delay+peer.Latency) * psPerNs})
			p.hostOut[i] += port.Rate
			p.fastest[i] = max(p.fastest[i], port.Rate)
		}
	}
	return p
}

// from gives the shortest store-and-forward time of a packet of so many line bytes from node src to every node. Only
// switches forward. (Bellman-Ford with a work list: the graphs are shallow.)
func (p *paths) from(src int, line int64) []int64 {
	k := [2]int64{int64(src), line}
	if d, ok := p.dist[k]; ok {
		return d
	}
	if len(p.dist) > lenCache*len(p.nodes) {
		clear(p.dist)
	}
	d := make([]int64, len(p.nodes))
	for i := range d {
		d[i] = farAway
	}
	d[src] = 0
	for work := []int{src}; len(work) > 0; work = work[1:] {
		u := work[0]
		if u != src && p.nodes[u].Kind != topology.KindSwitch {
			continue
		}
		for _, e := range p.out[u] {
			if t := d[u] + linePs(line, e.rate) + e.fixed; t < d[e.peer] {
				d[e.peer] = t
				work = append(work, e.peer)
			}
		}
	}
	p.dist[k] = d
	return d
}

// loop is what so many line bytes take from an end point to itself, ps.
func (p *paths) loop(node int, line int64) int64 {
	if p.fastest[node] == 0 {
		return farAway
	}
	return linePs(line, p.fastest[node]) + int64(fep.LoopLatency)*psPerNs
}

// ack is how soon an acknowledgement from dst can be at src, ps.
func (p *paths) ack(dst, src int) int64 {
	if dst == src {
		return p.loop(src, ackLine)
	}
	return p.from(dst, ackLine)[src]
}

// arrival is the least time from posting a message to the arrival of its last packet, on an idle fabric: the larger of
//   - the sender's link: all packets leave one after the other, the last of them then has the rest of its way ahead;
//   - the receiver's link: it starts when a packet can first be there, and carries all of them.
func (p *paths) arrival(src, dst int, m message) int64 {
	lastWay, fullWay := p.from(src, m.last)[dst], p.from(src, m.full)[dst]
	if src == dst {
		return p.loop(src, m.line)
	}
	if lastWay >= farAway || p.hostOut[src] == 0 || p.hostOut[dst] == 0 {
		return farAway
	}
	leave := linePs(m.line, p.hostOut[src])
	a := leave - linePs(m.last, p.fastest[src]) + lastWay
	first := fullWay - linePs(m.full, p.fastest[dst])
	if m.packets > 1 { // a short last packet might overtake, but not before it has left
		late := leave - linePs(m.last, p.fastest[src]) + lastWay - linePs(m.last, p.fastest[dst])
		first = min(first, late)
	}
	return max(a, first+linePs(m.line, p.hostOut[dst]))
}

// cut is a set of nodes and the links that lead out of it; Rate is their sum one way.
type cut struct {
	name  string
	in    []bool
	rate  int64
	links []cutLink
}

type cutLink struct {
	inside, outside int
	rate            int64
	fixed           int64 // propagation and latency of the node outside, ps
	back            int64 // the same inwards
}

func (p *paths) cut(name string, in []bool) (cut, bool) {
	c := cut{name: name, in: in}
	for u := range p.out {
		for _, e := range p.out[u] {
			if in[u] && !in[e.peer] {
				prop := e.fixed - int64(p.nodes[e.peer].Latency)*psPerNs
				c.links = append(c.links, cutLink{u, e.peer, e.rate, e.fixed, prop + int64(p.nodes[u].Latency)*psPerNs})
				c.rate += e.rate
			}
		}
	}
	return c, c.rate > 0
}

// cuts are the places where a fabric may be narrow: the links of each end point that has a rank, the links that lead out
// of a first-tier switch with its end points, and those out of each part that is left when higher tiers are taken away.
func (p *paths) cuts(hosts []int) []cut {
	var all []cut
	add := func(name string, in []bool) {
		same := func(c cut) bool { return slices.Equal(c.in, in) }
		if slices.ContainsFunc(all, same) {
			return
		}
		if c, ok := p.cut(name, in); ok {
			all = append(all, c)
		}
	}
	for _, h := range hosts {
		in := make([]bool, len(p.nodes))
		in[h] = true
		add("link of "+p.nodes[h].Name, in)
	}
	top := 0
	for i, n := range p.nodes {
		top = max(top, n.Tier)
		if n.Tier == 1 {
			add("links out of "+n.Name, p.star(i))
		}
	}
	for tier := 1; tier < top; tier++ {
		seen := make([]bool, len(p.nodes))
		for i, n := range p.nodes {
			if n.Tier <= tier && !seen[i] {
				in := p.component(i, tier)
				for j := range in {
					seen[j] = seen[j] || in[j]
				}
				add(fmt.Sprintf("links above tier %d of %s", tier, n.Name), in)
			}
		}
	}
	return all
}

func (p *paths) star(sw int) []bool {
	in := make([]bool, len(p.nodes))
	in[sw] = true
	for _, e := range p.out[sw] {
		in[e.peer] = in[e.peer] || p.nodes[e.peer].Tier == 0
	}
	return in
}

func (p *paths) component(start, tier int) []bool {
	in := make([]bool, len(p.nodes))
	in[start] = true
	for work := []int{start}; len(work) > 0; work = work[1:] {
		for _, e := range p.out[work[0]] {
			if !in[e.peer] && p.nodes[e.peer].Tier <= tier {
				in[e.peer] = true
				work = append(work, e.peer)
			}
		}
	}
	return in
}
