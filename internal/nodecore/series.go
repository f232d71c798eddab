package nodecore

import (
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/workload"
)

const (
	// mostKept is how many values of ports, and how many points of contexts, are kept of all nodes of a fabric together,
	// and nodeKept of one node at most.
	mostKept = 1 << 23
	nodeKept = 1 << 19
	// partKept is how many of them go into one message: what any socket takes.
	partKept = 4000
)

// SeriesRoom is how many values of ports, and how many points of contexts, a node of a fabric keeps of a series.
func SeriesRoom(plan *topology.Plan) int { return min(mostKept/max(len(plan.Nodes), 1), nodeKept) }

// series is what a node samples in a run.
type series struct {
	start    vt.Time
	ports    []*link.Series
	contexts []*windows
	room     int   // for points
	leftOut  int64 // points that found none
}

// windows are the points of one context, however often it is opened.
type windows struct {
	peer   netip.Addr
	tc     uint8
	points []ctl.WindowPoint
}

// sample begins to sample at the start of a run that wants it, and ends what the run before has left.
func (n *Node) sample(now vt.Time, r *ctl.Run) {
	n.series = nil
	for _, p := range n.Ports {
		p.Sample(nil)
	}
	if r.Spec.Every > 0 && r.Keep > 0 {
		s := &series{start: now, room: r.Keep}
		for _, p := range n.Ports {
			x := link.NewSeries(now, r.Spec.Every, r.Keep/(2*len(n.Ports)), p)
			p.Sample(x)
			s.ports = append(s.ports, x)
		}
		n.series = s
	}
	n.hook()
}

// WatchWindows has fn told of every change of a congestion window from now on, with one point each; nil ends that. The point is not
// kept.
func (n *Node) WatchWindows(fn func(c ctl.ContextPart)) {
	n.window = fn
	n.hook()
}

// hook has the contexts tell of changes while anybody wants to know.
func (n *Node) hook() {
	switch {
	case n.FEP == nil:
	case n.series == nil && n.window == nil:
		n.FEP.PDS().WatchWindows(nil)
	default:
		n.FEP.PDS().WatchWindows(n.changed)
	}
}

// changed takes a change of a window.
func (n *Node) changed(now vt.Time, peer netip.Addr, tc uint8, c *cms.Context, opened bool) {
	v := c.View()
	p := ctl.WindowPoint{int64(now), v.Cwnd, v.InFlight, int64(v.LastRTT), int64(v.Delay), int64(v.Last)}
	if opened {
		p[5] = ctl.Opened
	}
	if n.window != nil {
		n.window(ctl.ContextPart{Peer: peer.String(), TC: tc, Points: []ctl.WindowPoint{p}})
	}
	if n.series != nil {
		p[0] -= int64(n.series.start)
		n.series.add(peer, tc, p)
	}
}

func (s *series) add(peer netip.Addr, tc uint8, p ctl.WindowPoint) {
	if s.room == 0 {
		s.leftOut++
		return
	}
	s.room--
	for _, w := range s.contexts { // few
		if w.peer == peer && w.tc == tc {
			w.points = append(w.points, p)
			return
		}
	}
	s.contexts = append(s.contexts, &windows{peer, tc, []ctl.WindowPoint{p}})
}

// Series gives a piece of what was sampled, from a number on that the piece before has named, 0 for the first. With the last one the
// node forgets it all, and samples no more.
func (n *Node) Series(from int) ctl.SeriesPart {
	var out ctl.SeriesPart
	s := n.series
	if s == nil {
		return out
	}
	if from <= 0 {
		from, out.LeftOut = 0, s.leftOut
		for _, p := range s.ports {
			out.LeftOut += p.LeftOut
		}
	}
	// All that there is has numbers in a row: the intervals of each port, then the points of each context.
	at, left := 0, partKept
	cut := func(n int) (lo, hi int) {
		lo = min(max(from-at, 0), n)
		hi = min(lo+left, n)
		at += n
		left -= hi - lo
		if hi < n && out.Next == 0 {
			out.Next = at - n + hi
		}
		return lo, hi
	}
	for i, p := range s.ports {
		depth, sent := p.Whole()
		if lo, hi := cut(len(depth)); lo < hi {
			out.Ports = append(out.Ports, ctl.PortPart{Port: i, Depth: depth[lo:hi], Sent: sent[lo:hi]})
		}
	}
	for _, w := range s.contexts {
		if lo, hi := cut(len(w.points)); lo < hi {
			out.Contexts = append(out.Contexts, ctl.ContextPart{Peer: w.peer.String(), TC: w.tc, Points: w.points[lo:hi]})
		}
	}
	if out.Next == 0 {
		n.sample(s.start, &ctl.Run{})
	}
	return out
}

// Collect puts what the nodes of a plan have sampled together, each asked piece by piece. ask gives the piece of a node that
// begins with a number; a node that does not answer is left out.
func Collect(plan *topology.Plan, every time.Duration, ask func(node, from int) (ctl.SeriesPart, error)) *workload.Series {
	out := &workload.Series{EveryNs: int64(every)}
	names := map[string]string{}
	for i := range plan.Nodes {
		names[plan.Nodes[i].Addr4.String()], names[plan.Nodes[i].Addr6.String()] = plan.Nodes[i].Name, plan.Nodes[i].Name
	}
	for i := range plan.Nodes {
		for from := 0; ; {
			part, err := ask(i, from)
			if err != nil {
				break
			}
			join(out, &plan.Nodes[i], plan, names, &part)
			if part.Next <= from {
				break
			}
			from = part.Next
		}
	}
	return out
}

// join appends a piece of a node.
func join(out *workload.Series, n *topology.Node, plan *topology.Plan, names map[string]string, part *ctl.SeriesPart) {
	out.LeftOut += part.LeftOut
	for _, p := range part.Ports {
		if p.Port < 0 || p.Port >= len(n.Ports) {
			continue
		}
		q := &n.Ports[p.Port]
		if k := len(out.Ports) - 1; k < 0 || out.Ports[k].Node != n.Name || out.Ports[k].Port != q.Name {
			out.Ports = append(out.Ports, workload.PortSeries{Node: n.Name, Port: q.Name, Link: plan.Links[q.Link].Name})
		}
		x := &out.Ports[len(out.Ports)-1]
		x.Depth, x.Sent = append(x.Depth, p.Depth...), append(x.Sent, p.Sent...)
	}
	for _, c := range part.Contexts {
		peer := c.Peer
		if name := names[peer]; name != "" {
			peer = name
		}
		if k := len(out.Contexts) - 1; k < 0 || out.Contexts[k].Node != n.Name || out.Contexts[k].Peer != peer || out.Contexts[k].TC != int(c.TC) {
			out.Contexts = append(out.Contexts, workload.ContextSeries{Node: n.Name, Peer: peer, TC: int(c.TC)})
		}
		x := &out.Contexts[len(out.Contexts)-1]
		for _, p := range c.Points {
			x.Points = append(x.Points, Point(p))
		}
	}
}

// Point is a point as results have it.
func Point(p ctl.WindowPoint) workload.ContextPoint {
	decision := "opened"
	if p[5] != ctl.Opened {
		decision = cms.Decision(p[5]).String()
	}
	return workload.ContextPoint{AtNs: p[0], Cwnd: p[1], InFlight: p[2], RTTNs: p[3], DelayNs: p[4], Decision: decision}
}
