package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/sim"
)

// simTrace writes the frames of links of a simulated fabric as tcpdump writes those of a lab.
type simTrace struct {
	from   []topology.End // sending end of each direction
	file   *os.File
	out    *capture.Writer
	sorter *capture.Sorter
	stats  []capture.Stats
	slack  time.Duration // see ahead
	err    error         // of the output: the first one
}

// newSimTrace opens the file of --trace for the links of --links.
func newSimTrace(c *call, plan *topology.Plan) (*simTrace, error) {
	links, err := capture.Links(plan, c.String("links"))
	if err != nil {
		return nil, api.Errorf(api.CodeNotFound, "--links: %w", err)
	}
	var dirs []capture.Direction
	t := &simTrace{slack: ahead(plan)}
	for _, id := range links {
		for _, from := range []topology.End{plan.Links[id].A, plan.Links[id].B} {
			dirs, t.from = append(dirs, capture.DirectionOf(plan, id, from)), append(t.from, from)
		}
	}
	// Dues of one direction may decrease where an impairment reorders: only the watermark lets frames go.
	t.sorter = capture.NewSorter(capture.SorterConfig{Directions: len(dirs), Reorders: true, Limit: maxHeld})
	t.stats = make([]capture.Stats, len(dirs))
	if t.file, err = os.Create(c.String("trace")); err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	if t.out, err = capture.NewWriter(t.file, dirs, "", false); err != nil {
		return nil, errors.Join(fmt.Errorf("--trace: %w", err), t.file.Close())
	}
	return t, nil
}

// tap has a fabric show its frames, which must be of later times than those of the fabric before.
func (t *simTrace) tap(fabric *sim.Fabric) {
	for iface, from := range t.from {
		fabric.Tap(from.Node, from.Port, func(f *link.Frame) { t.take(iface, f) })
	}
}

// maxHeld is how many frames may wait for their turn: all that fit into memory, for none must go too early.
const maxHeld = 1 << 30

// ahead is how far, at most, the fabric's time may run ahead of a node: in one step nobody is given more than the longest time
// that anything takes from one node to the next.
func ahead(plan *topology.Plan) time.Duration {
	var most, latency time.Duration
	for i := range plan.Links {
		l := &plan.Links[i]
		most = max(most, l.Delay+time.Duration(link.LinePs(0, l.Rate)/1000))
	}
	for i := range plan.Nodes {
		latency = max(latency, plan.Nodes[i].Latency)
	}
	return most + latency
}

// take takes a copy of a frame that leaves for the far end.
func (t *simTrace) take(iface int, f *link.Frame) {
	p := capture.Sent(iface, f.Due, f.B)
	if f.Damaged {
		p = capture.Damaged(p, f.FCS)
	}
	t.stats[iface].Received++
	t.sorter.Push(p)
}

// upTo writes what can be followed by nothing earlier, once the fabric's time is now.
func (t *simTrace) upTo(now vt.Time) {
	t.sorter.Watermark(now.Add(-t.slack))
	t.write()
}

func (t *simTrace) write() {
	for t.err == nil {
		p, ok := t.sorter.Next()
		if !ok {
			return
		}
		t.stats[p.Iface].Delivered++
		t.err = t.out.Packet(&p)
	}
}

// close writes what is held and ends the file; packets is how many it has.
func (t *simTrace) close() (packets uint64, err error) {
	t.sorter.Flush()
	t.write()
	err = errors.Join(t.err, t.out.Close(t.stats), t.file.Close())
	for _, s := range t.stats {
		packets += s.Delivered
	}
	if err != nil {
		err = fmt.Errorf("--trace: %w", err)
	}
	return packets, err
}
