package control

import (
	"fmt"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/llr"
)

// retries is what link layer retry did at a port.
type retries struct {
	replays, flushes, flushed uint64
	state                     llr.State
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

// retries gives what each port of each node has done.
func (d *Daemon) retries() [][]retries {
	all := make([][]retries, len(d.nodes))
	for i, n := range d.nodes {
		all[i] = make([]retries, len(d.plan.Nodes[i].Ports))
		for q := range all[i] {
			c, _ := portLLR(n.page, q)
			all[i][q] = retries{replays: c[llr.TxReplay], flushes: c[llr.TxFlushes], flushed: c[llr.TxFlushed], state: stateOf(&c)}
		}
	}
	return all
}

// tellRetries says in an event for each port that has given up how often it has since before, and what to do if it stays so.
func (d *Daemon) tellRetries(before [][]retries) {
	for i, ports := range d.retries() {
		for q, now := range ports {
			was, link := before[i][q], d.plan.Links[d.plan.Nodes[i].Ports[q].Link].Name
			if now.flushes > was.flushes {
				d.event("llr", d.nodes[i].name, link, fmt.Sprintf("in the run: LLR of %s gave up %d times, with %d frames unacknowledged; %d replays",
					d.plan.Nodes[i].Ports[q].Name, now.flushes-was.flushes, now.flushed-was.flushed, now.replays-was.replays))
			}
			if now.state == llr.Flush {
				d.event("llr", d.nodes[i].name, link, fmt.Sprintf("LLR of %s stays in FLUSH until somebody says `uetlab llr reinit %s --from %s`, or the next run begins",
					d.plan.Nodes[i].Ports[q].Name, link, d.nodes[i].name))
			}
		}
	}
}

// llrState is the state of a port's sending side, empty where there never was link layer retry.
func (d *Daemon) llrState(node, port int) string {
	c, used := portLLR(d.nodes[node].page, port)
	if !used {
		return ""
	}
	return stateOf(&c).String()
}

func stateOf(c *llr.Counters) llr.State { return llr.State(min(c[llr.TxState], uint64(llr.Flush))) }
