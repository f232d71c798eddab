package control

import (
	"fmt"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
)

// retries is what link layer retry did at the ports of a node.
type retries struct {
	replays, flushes, flushed uint64
}

// portLLR reads a port's counters of link layer retry; used is false where there never was any.
func portLLR(page *clock.NodePage, port int) (c llr.Counters, used bool) {
	for k := range c {
		c[k] = page.Ports[port][link.FirstLLR+link.Counter(k)].Load()
		used = used || c[k] != 0
	}
	return c, used
}

// linkCounters says which of a port's counters are of something that it has or had: link layer retry and CBFC have theirs only then.
func linkCounters(page *clock.NodePage, port int) func(link.Counter) bool {
	_, retry := portLLR(page, port)
	credit := false
	for c := link.FirstCBFC; c < link.NumCounters; c++ {
		credit = credit || page.Ports[port][c].Load() != 0
	}
	return func(c link.Counter) bool {
		return c < link.FirstLLR || c < link.FirstCBFC && retry || c >= link.FirstCBFC && credit
	}
}

// retries sums the retries of every node.
func (d *Daemon) retries() []retries {
	all := make([]retries, len(d.nodes))
	for i, n := range d.nodes {
		for q := range d.plan.Nodes[i].Ports {
			c, _ := portLLR(n.page, q)
			all[i].replays += c[llr.TxReplay]
			all[i].flushes += c[llr.TxFlushes]
			all[i].flushed += c[llr.TxFlushed]
		}
	}
	return all
}

// tellRetries says in an event for each node whose ports have given up how often they have since before.
func (d *Daemon) tellRetries(before []retries) {
	for i, now := range d.retries() {
		if was := before[i]; now.flushes > was.flushes {
			d.event("llr", d.nodes[i].name, "", fmt.Sprintf("in the run: LLR gave up %d times, with %d frames unacknowledged; %d replays",
				now.flushes-was.flushes, now.flushed-was.flushed, now.replays-was.replays))
		}
	}
}

// llrState is the state of a port's sending side, empty where there never was link layer retry.
func (d *Daemon) llrState(node, port int) string {
	c, used := portLLR(d.nodes[node].page, port)
	if !used {
		return ""
	}
	return llr.State(min(c[llr.TxState], uint64(llr.Flush))).String()
}
