package control

import (
	"context"
	"fmt"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

// The carrier of the veth pairs follows the links for people and plain hosts to see. What is sent and received follows
// from scheduled changes alone, so the carrier goes only when a link that is down has nothing under way, and is back
// before it comes up. Miswired cables keep theirs: each carries two links' halves.

// cutCarriers takes the carrier from links that are down both ways. The lab rests; callers hold time.mu.
func (d *Daemon) cutCarriers(ctx context.Context) {
	for id, l := range d.faults.At(vt.Never - 1) {
		if !l.AB.Down || !l.BA.Down || d.noCarrier[id] || d.plan.Miswired(id) || d.busy(id, l.Since) {
			continue
		}
		if err := d.carrier(ctx, id, false); err != nil {
			d.log.Warn("carrier", "link", d.plan.Links[id].Name, "err", err)
			continue
		}
		d.noCarrier[id] = true
	}
}

// busy says whether a link's last change, at time last, still lies ahead, or a frame is on it, or an end is dead.
func (d *Daemon) busy(id int, last vt.Time) bool {
	l := &d.plan.Links[id]
	for _, e := range []topology.End{l.A, l.B} {
		n := d.nodes[e.Node]
		if n.isDead() || d.takesPart(n.id) && !d.real() && n.page.Horizon.Load() < int64(last) {
			return true
		}
	}
	return d.frameOn(l)
}

// restoreCarrier gives a link its carrier back before it comes up.
func (d *Daemon) restoreCarrier(ctx context.Context, id int) error {
	if err := d.carrier(ctx, id, true); err != nil {
		return fmt.Errorf("carrier of %s: %w", d.plan.Links[id].Name, err)
	}
	l := &d.plan.Links[id]
	for _, e := range []topology.End{l.A, l.B} {
		if err := d.ask(ctx, d.nodes[e.Node], ctl.Message{Op: "carrier", Port: e.Port, Up: true}); err != nil {
			return err
		}
	}
	d.noCarrier[id] = false
	return nil
}

// carrier takes end A of a link down or up; the other end sees it.
func (d *Daemon) carrier(ctx context.Context, id int, up bool) error {
	end := d.plan.Links[id].A
	if !d.takesPart(end.Node) {
		end = d.plan.Links[id].B // a plain host's port keeps its addresses and routes
	}
	return d.ask(ctx, d.nodes[end.Node], ctl.Message{Op: "port", Port: end.Port, Up: up})
}
