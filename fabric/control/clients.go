package control

import (
	"context"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
)

// working says whether processes that are attached to FEPs have something under way: an operation, a wait, or they are thinking.
func (d *Daemon) working() bool {
	for _, n := range d.agreeing() {
		if n.page.Work.Load() != 0 {
			return true
		}
	}
	return false
}

// attend lets time go on at a lab without a run, as in one, for as long as processes have something under way. Callers hold mu, which is let
// go in between, for others to hold time or to begin a run.
func (d *Daemon) attend(ctx context.Context, c *clockwork) {
	for ctx.Err() == nil && !c.run && !c.paused && d.working() {
		if !c.open {
			lo, _ := d.horizons()
			c.open = true
			c.seg.Limit = max(c.seg.Limit, lo.Add(window))
			c.seg.Flags &^= clock.Rest
			d.anchor(c)
			d.write(c)
			d.wake()
		}
		d.extend(c)
		d.leap(c, d.working)
		c.mu.Unlock()
		sleep(tick)
		c.mu.Lock()
	}
	if !c.run && !c.paused {
		d.rest(c)
	}
}

// poked answers a node in which a process wants to act: whatever leap was decided before is published by now, and the next one sees what
// the node has in its page.
func (d *Daemon) poked(n *node) {
	d.leaping.Lock() // and not the clock's mutex: whoever holds that may be waiting for this very node
	n.mu.Lock()
	if n.conn != nil {
		if err := n.conn.Send(&ctl.Message{Op: "poked"}); err != nil {
			d.log.Warn("answer a process", "node", n.name, "err", err)
		}
		d.clk.Bell[n.id].Add(1)
	}
	n.mu.Unlock()
	d.leaping.Unlock()
	d.poke()
}
