package workload

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/vt"
)

// IdealNs is a lower bound on the completion time of one iteration of the pattern on an idle, healthy fabric, in
// nanoseconds, with the formula that gave it: the largest of
//   - the longest chain of messages that wait for each other, each taking its least time, plus the last ACK's way;
//   - for every narrow place (an end point's link, the links out of a leaf or pod): what has to cross it at its rate,
//     plus the way there, the way on and the ACK's way.
//
// Headers, preamble and gaps count. docs/workloads.md has the formula of each pattern.
func IdealNs(spec Spec, plan *topology.Plan) (ns int64, formula string, err error) {
	if err := spec.Validate(); err != nil {
		return 0, "", err
	}
	hosts, err := placement(spec, plan)
	if err != nil {
		return 0, "", err
	}
	b := newBound(spec, plan, hosts)
	ps, formula := b.chain()
	if ps >= farAway {
		return 0, "", fmt.Errorf("topology %s: there are ranks without a path to each other; join them by links", plan.Name)
	}
	for _, c := range b.p.cuts(hosts) {
		for _, out := range []bool{true, false} {
			if t, text := b.crossing(c, out); t > ps {
				ps, formula = t, text
			}
		}
	}
	return ps / psPerNs, formula, nil
}

// placement gives the node id of every rank.
func placement(spec Spec, plan *topology.Plan) ([]int, error) {
	if spec.Nodes != nil {
		for _, n := range spec.Nodes {
			if n >= len(plan.Nodes) || plan.Nodes[n].Kind != topology.KindFEP {
				return nil, fmt.Errorf("--ranks: node id %d is no end point of %s; take nodes of kind fep", n, plan.Name)
			}
		}
		return spec.Nodes, nil
	}
	var hosts []int
	for i, n := range plan.Nodes {
		if n.Kind == topology.KindFEP && len(hosts) < spec.Ranks {
			hosts = append(hosts, i)
		}
	}
	if len(hosts) < spec.Ranks {
		return nil, fmt.Errorf("--ranks %d: %s has %d end points; take fewer ranks or a larger topology",
			spec.Ranks, plan.Name, len(hosts))
	}
	return hosts, nil
}

// bound walks the schedules of all ranks over the idle fabric.
type bound struct {
	spec  Spec
	p     *paths
	mtu   int
	hosts []int
	scs   []*schedule
	pairs map[[2]int]*traffic // by sending and receiving rank
}

// traffic is what one rank sends to another in an iteration.
type traffic struct {
	line  int64 // line bytes
	short int64 // line bytes of the shortest packet
	start int64 // when the first message may begin, ps
}

func newBound(spec Spec, plan *topology.Plan, hosts []int) *bound {
	b := &bound{spec: spec, p: newPaths(plan), mtu: plan.PayloadMTU, hosts: hosts, pairs: map[[2]int]*traffic{}}
	for r := range spec.Ranks {
		b.scs = append(b.scs, spec.schedule(r))
	}
	return b
}

// chains walks the schedules of all ranks, every message taking its least time.
type chains struct {
	*bound
	waits [][][]int32
	recvs []map[int32]int32 // per rank: tag → receive
	half  []map[int32]step  // per rank: receives of which one of two conditions is met
	hits  [][]int32         // per rank: of its gates
	work  vt.Queue[step]    // in the order of time, here in ps
	end   int64             // when the last send is acknowledged, ps
	text  string
}

// step is a point in a chain: op may begin, or is done, at that time, after depth messages.
type step struct {
	rank, op int32
	at       int64
	depth    int
	done     bool
}

func (c *chains) push(s step) { c.work.Push(vt.Time(s.at), vt.ClassCall, 0, s) }

// chain gives the end of the longest chain of messages, ps, and its description.
func (b *bound) chain() (end int64, formula string) {
	c := &chains{bound: b}
	for r, sc := range b.scs {
		c.waits = append(c.waits, sc.waits())
		c.recvs, c.half = append(c.recvs, map[int32]int32{}), append(c.half, map[int32]step{})
		c.hits = append(c.hits, make([]int32, len(sc.gates)))
		for i, o := range sc.ops {
			switch {
			case o.kind == opRecv:
				c.recvs[r][o.tag] = int32(i)
			case o.after == none:
				c.push(step{rank: int32(r), op: int32(i), at: o.start * psPerNs})
			}
		}
	}
	for c.work.Len() > 0 {
		_, s := c.work.Pop()
		if s.done {
			c.done(s)
		} else if !c.send(s) {
			return farAway, ""
		}
	}
	return c.end, c.text
}

func (c *chains) send(s step) bool {
	o := &c.scs[s.rank].ops[s.op]
	src, dst := c.hosts[s.rank], c.hosts[o.peer]
	m := split(o.at.n, c.mtu)
	if !o.note { // what tells of activations may cross after the last flow's end
		c.count(s, int(o.peer), m)
	}
	way, back := c.p.arrival(src, dst, m), c.p.ack(dst, src)
	if way >= farAway || back >= farAway {
		return false
	}
	s.depth++
	if i, ok := c.recvs[o.peer][o.tag]; ok {
		there := step{o.peer, i, s.at + way, s.depth, true}
		if c.scs[o.peer].ops[i].after < 0 {
			c.push(there)
		} else {
			c.met(there)
		}
	}
	s.at += way + back
	s.done = true
	c.push(s)
	if s.at > c.end && !o.note {
		c.end = s.at
		c.text = fmt.Sprintf("chain of %d messages, the last one %d B in %d packets from rank %d to %d: %s + ACK %s",
			s.depth, o.at.n, m.packets, s.rank, o.peer, nsText(s.at-back), nsText(back))
	}
	return true
}

// done lets go what waits for an op.
func (c *chains) done(s step) {
	for _, w := range c.waits[s.rank][s.op] {
		next := step{s.rank, w, s.at, s.depth, false}
		if c.scs[s.rank].ops[w].kind == opRecv {
			next.done = true
			c.met(next)
		} else {
			c.push(next)
		}
	}
	// Hits come in the order of time, and none sooner than it can: the n-th is no later than the n-th of any real run.
	if h := c.scs[s.rank].ops[s.op].hits; h > 0 {
		hits := &c.hits[s.rank][h-1]
		*hits++
		for _, k := range c.scs[s.rank].gates[h-1].open(*hits) {
			c.push(step{s.rank, k, s.at, s.depth, false})
		}
	}
}

// met notes that a receive which waits has its data, or what it waits for: with both it is done.
func (c *chains) met(s step) {
	other, ok := c.half[s.rank][s.op]
	if !ok {
		c.half[s.rank][s.op] = s
		return
	}
	if other.at > s.at {
		s = other
	}
	c.push(s)
}

func (b *bound) count(s step, to int, m message) {
	k := [2]int{int(s.rank), to}
	t := b.pairs[k]
	if t == nil {
		t = &traffic{short: m.last, start: s.at}
		b.pairs[k] = t
	}
	t.line += m.line
	t.short = min(t.short, m.last)
	t.start = min(t.start, s.at)
}

// crossing bounds the iteration by what has to cross a cut, outwards or inwards: the first packet's way there, all
// packets at the cut's rate, the last one's way on, and its ACK. Each part is the least over all who take it.
func (b *bound) crossing(c cut, out bool) (int64, string) {
	var all traffic
	first, back := true, int64(farAway)
	srcs, dsts := map[int]bool{}, map[int]bool{}
	for k, t := range b.pairs {
		src, dst := b.hosts[k[0]], b.hosts[k[1]]
		if c.in[src] == c.in[dst] || c.in[src] != out {
			continue
		}
		if first {
			all.start, all.short, first = t.start, t.short, false
		}
		all.line += t.line
		all.start, all.short = min(all.start, t.start), min(all.short, t.short)
		back = min(back, b.p.ack(dst, src))
		srcs[src], dsts[dst] = true, true
	}
	if first {
		return 0, ""
	}
	there, on := int64(farAway), int64(farAway)
	for _, l := range c.links {
		near, far, fixed := l.inside, l.outside, l.fixed
		if !out {
			near, far, fixed = l.outside, l.inside, l.back
		}
		for s := range srcs {
			there = min(there, b.p.from(s, all.short)[near])
		}
		for d := range dsts {
			on = min(on, fixed+b.p.from(far, all.short)[d])
		}
	}
	body := linePs(all.line, c.rate)
	dir := map[bool]string{true: "out", false: "in"}[out]
	return all.start + there + body + on + back,
		fmt.Sprintf("%s (%s): %d B of line at %.6g Gb/s: %s + way %s + ACK %s", c.name, dir, all.line,
			float64(c.rate)/1e9, nsText(body), nsText(all.start+there+on), nsText(back))
}

func nsText(ps int64) string { return fmt.Sprintf("%d ns", ps/psPerNs) }

// SafeGuard is a Guard that lets all ranks leave the barrier of a healthy fabric in time: twice what the barrier's rounds
// take on an idle one.
func SafeGuard(spec Spec, plan *topology.Plan) (time.Duration, error) {
	hosts, err := placement(spec, plan)
	if err != nil {
		return 0, err
	}
	p := newPaths(plan)
	m := split(stampBytes, plan.PayloadMTU)
	var worst, rounds int64
	for hop := 1; hop < spec.Ranks; hop *= 2 {
		rounds++
		for r := range hosts {
			worst = max(worst, p.arrival(hosts[r], hosts[(r+hop)%len(hosts)], m))
		}
	}
	if worst >= farAway {
		return 0, fmt.Errorf("topology %s: there are ranks without a path to each other; join them by links", plan.Name)
	}
	return time.Duration(2*rounds*worst/psPerNs + 1), nil
}
