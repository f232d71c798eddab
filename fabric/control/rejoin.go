package control

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/wiring"
	"github.com/uetlab/uetlab/internal/ctl"
)

// nodeDied lets the others go on without a node; its links are down.
func (d *Daemon) nodeDied(n *node) {
	d.deaths.Add(1)
	d.clk.SetDead(n.id, true)
	d.event("node", n.name, "", "died; its links go down")
	d.changeLinks(n, api.LinkOpFail)
}

// changeLinks takes all links of a node down or up.
func (d *Daemon) changeLinks(n *node, op string) {
	ctx, cancel := context.WithTimeout(context.Background(), runWait)
	defer cancel()
	for i := range d.plan.Links {
		l := &d.plan.Links[i]
		if l.A.Node != n.id && l.B.Node != n.id {
			continue
		}
		if _, err := d.changeLink(ctx, l.Name, api.LinkChange{Op: op}); err != nil {
			d.log.Warn("links of a node", "node", n.name, "link", l.Name, "err", err)
		}
	}
}

// rejoin takes a node back that was restarted: it is configured, its links are made anew, and it takes part in virtual
// time from here on.
func (d *Daemon) rejoin(n *node) {
	ctx, cancel := context.WithTimeout(context.Background(), runWait)
	defer cancel()
	if err := d.readmit(ctx, n); err != nil {
		d.log.Error("take a restarted node back", "node", n.name, "err", err)
		d.event("node", n.name, "", "could not rejoin: "+err.Error())
		return
	}
	d.changeLinks(n, api.LinkOpRestore)
	d.event("node", n.name, "", "rejoined; its links are up")
}

func (d *Daemon) readmit(ctx context.Context, n *node) error {
	if !d.runBusy.TryLock() {
		return fmt.Errorf("a run is under way")
	}
	defer d.runBusy.Unlock()
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	held, err := d.hold(ctx, c)
	if err != nil {
		return err
	}
	defer d.release(c, held)
	down := map[int]bool{}
	for i := range d.links {
		l := &d.plan.Links[i]
		down[i] = d.links[i].down() && l.A.Node != n.id && l.B.Node != n.id
	}
	cfg := d.config(n.id, d.plan.Routes(down)[n.id])
	cfg.Start = held
	ask := func(n *node, m ctl.Message) error {
		_, files, err := n.call(ctx, d, m)
		closeAll(files)
		return err
	}
	if err := ask(n, ctl.Message{Op: "config", Config: cfg}); err != nil {
		return err
	}
	ns := make([]*os.File, len(d.nodes))
	for i, m := range d.nodes {
		m.mu.Lock()
		if !m.dead || m == n {
			ns[i] = m.netns
		}
		m.mu.Unlock()
	}
	if err := wiring.WireNode(ctx, d.plan, ns, n.id); err != nil {
		return err
	}
	if err := ask(n, ctl.Message{Op: "start"}); err != nil {
		return err
	}
	up := func(n *node, port int) error {
		return ask(n, ctl.Message{Op: "carrier", Port: port, Up: true})
	}
	for i, q := range d.plan.Nodes[n.id].Ports {
		p := d.nodes[q.Peer]
		if p.isDead() {
			continue
		}
		if err := ask(p, ctl.Message{Op: "rewire", Port: q.PeerIdx}); err != nil {
			return err
		}
		if err := errors.Join(up(p, q.PeerIdx), up(n, i)); err != nil {
			return err
		}
		d.links[q.Link].NoCarrier = false
	}
	n.mu.Lock()
	n.dead = false
	n.mu.Unlock()
	d.clk.SetDead(n.id, false)
	return nil
}

// restart ends a node and starts it again; it rejoins by itself.
func (d *Daemon) restart(ctx context.Context, name string) (api.NodeStatus, error) {
	var none api.NodeStatus
	p, err := d.plan.Node(name)
	if err != nil {
		return none, api.Errorf(api.CodeNotFound, "restart: %w", err)
	}
	if !d.runBusy.TryLock() {
		return none, api.Errorf(api.CodeExists, "restart %s: a run is under way", name).WithHint("wait for it, or interrupt it")
	}
	d.runBusy.Unlock()
	n := d.nodes[p.ID]
	deaths := d.deaths.Load()
	old, _ := d.handle(n.id)
	h, err := d.rt.Restart(ctx, old, d.nodeSpec(n.id))
	if err != nil {
		return none, err
	}
	d.setHandle(h)
	for n.isDead() || d.deaths.Load() == deaths {
		if ctx.Err() != nil {
			return none, api.Errorf(api.CodeTimeout, "restart %s: it has not rejoined", name).WithHint("see `uetlab events` and `uetlab logs %s`", name)
		}
		sleep(tick * 4)
	}
	if err := d.saveState(); err != nil {
		return none, err
	}
	return d.nodeStatus()[n.id], nil
}

func (d *Daemon) setHandle(h runtime.Handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.handles {
		if d.handles[i].ID == h.ID {
			d.handles[i] = h
			return
		}
	}
	d.handles = append(d.handles, h)
}
