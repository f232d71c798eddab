package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fabric/wiring"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

// nodeDied takes down the links of a node that is marked as dead.
func (d *Daemon) nodeDied(n *node) {
	d.deaths.Add(1)
	d.event("node", n.name, "", "died; its links go down")
	d.settleLinks(n)
}

// settleLinks takes all links of a node down or up, as the node is dead or lives at the moment: it may be back before the
// links of the one that died are all down. A link to another node that is dead stays down. What else is wrong with them, wrong bits of the topology's for
// example, stays so.
func (d *Daemon) settleLinks(n *node) {
	n.fate.Lock()
	defer n.fate.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), runWait)
	defer cancel()
	down := n.isDead()
	for _, id := range d.linksAt(n.id) {
		if !down && slices.ContainsFunc(d.plan.Ends(id), func(e topology.End) bool { return d.nodes[e.Node].isDead() }) {
			continue
		}
		l := &d.plan.Links[id]
		if _, err := d.changeLink(ctx, l.Name, api.LinkChange{Op: api.LinkOpSet, Set: api.LinkSet{Down: &down}}); err != nil {
			d.log.Warn("links of a node", "node", n.name, "link", l.Name, "err", err)
		}
	}
}

// linksAt lists the links that a node has to do with: its own, and those of ports that miswired cables join to it.
func (d *Daemon) linksAt(node int) (links []int) {
	for _, q := range d.plan.Nodes[node].Ports {
		links = append(links, q.Link)
		if far := q.Miswired; far != nil {
			links = append(links, d.plan.Nodes[far.Node].Ports[far.Port].Link)
		}
	}
	slices.Sort(links)
	return slices.Compact(links)
}

// rejoin takes a node back that was restarted: it is configured, its links are made anew, and it takes part in virtual
// time from here on. No run begins before all of that is done; one that is under way is waited for.
func (d *Daemon) rejoin(n *node) {
	d.runBusy.Lock()
	defer d.runBusy.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), runWait)
	defer cancel()
	err := d.readmit(ctx, n)
	if err != nil {
		d.log.Error("take a restarted node back", "node", n.name, "err", err)
		d.event("node", n.name, "", "could not rejoin: "+err.Error())
	} else {
		d.settleLinks(n)
		d.event("node", n.name, "", "rejoined; its links are up")
	}
	n.mu.Lock()
	n.joins++
	n.joined = err
	n.mu.Unlock()
}

// readmit configures a node and makes its links anew. All nodes stand at one virtual time meanwhile, so that it can join
// there.
func (d *Daemon) readmit(ctx context.Context, n *node) error {
	c := &d.time
	c.mu.Lock()
	defer c.mu.Unlock()
	held, err := d.hold(ctx, c)
	if err != nil {
		return err
	}
	defer d.release(c, held)
	if !d.real() {
		if err := d.reach(ctx, c, held); err != nil {
			return err
		}
		d.rest(c)
	}
	if err := d.ask(ctx, n, ctl.Message{Op: "config", Config: d.configAt(n, held)}); err != nil {
		return err
	}
	if err := d.wireAnew(ctx, n); err != nil {
		return err
	}
	if ahead := d.settings.after(n.id, held); len(ahead) > 0 {
		if err := d.ask(ctx, n, ctl.Message{Op: "change", Changes: ahead}); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == nil {
		return fmt.Errorf("node %s: %w", n.name, errNodeGone)
	}
	n.dead = false
	d.clk.SetDead(n.id, false)
	return nil
}

// configAt is the configuration of a node that joins at a time, with its links as they are then.
func (d *Daemon) configAt(n *node, held vt.Time) *ctl.Config {
	down, states := map[int]bool{}, d.faults.At(held)
	for i, f := range states {
		l := &d.plan.Links[i]
		down[i] = f.Down() && l.A.Node != n.id && l.B.Node != n.id
	}
	cfg := d.config(n.id, d.plan.Routes(down)[n.id])
	cfg.Start = held
	cfg.Node.Ports = slices.Clone(cfg.Node.Ports)
	for i := range cfg.Node.Ports {
		q := &cfg.Node.Ports[i]
		l := &states[q.Link]
		imp, side := &l.AB, 0
		if d.plan.Links[q.Link].A.Node != n.id {
			imp, side = &l.BA, 1
		}
		if q.Negotiated {
			q.Wish = l.Wish[side]
		} else {
			q.LLR = nil
			if !l.CBFC {
				q.CBFC = nil
			}
		}
		if l.LLR { // of any end
			q.LLR = d.plan.Retry(q.Link)
		}
		q.BER, q.UCR, q.RawBER = imp.BER, imp.UCR, imp.RawBER
	}
	if cfg.Node.Switch != nil {
		set := d.settings.at(n.id, held)
		cfg.Node.Switch = &set
	}
	return cfg
}

// wireAnew makes the links of a restarted node to its living neighbours, and has both ends take them up.
func (d *Daemon) wireAnew(ctx context.Context, n *node) error {
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
	if err := d.ask(ctx, n, ctl.Message{Op: "start"}); err != nil {
		return err
	}
	up := func(n *node, port int) error {
		return d.ask(ctx, n, ctl.Message{Op: "carrier", Port: port, Up: true})
	}
	for i, q := range d.plan.Nodes[n.id].Ports {
		far := q.Far()
		p := d.nodes[far.Node]
		if p.isDead() {
			continue
		}
		if err := d.ask(ctx, p, ctl.Message{Op: "rewire", Port: far.Port}); err != nil {
			return err
		}
		if err := errors.Join(up(p, far.Port), up(n, i)); err != nil {
			return err
		}
		d.noCarrier[q.Link] = false
	}
	return nil
}

// restart ends a node and starts it again; it rejoins by itself.
func (d *Daemon) restart(ctx context.Context, name string) (api.NodeStatus, error) {
	var none api.NodeStatus
	p, err := d.plan.Node(name)
	if err != nil {
		return none, api.Errorf(api.CodeNotFound, "restart: %w", err)
	}
	if !d.restarting.TryLock() {
		return none, api.Errorf(api.CodeExists, "restart %s: another restart is under way", name).WithHint("wait for it")
	}
	defer d.restarting.Unlock()
	if !d.takeTurn(ctx) {
		return none, api.Errorf(api.CodeExists, "restart %s: a run is under way", name).WithHint("wait for it, or interrupt it")
	}
	d.endTurn()
	n := d.nodes[p.ID]
	before, _ := n.lastJoin()
	old, _ := d.handle(n.id)
	h, err := d.rt.Restart(ctx, old, d.nodeSpec(n.id))
	if err != nil {
		return none, err
	}
	d.setHandle(h)
	for {
		joins, err := n.lastJoin()
		if joins != before && err != nil {
			return none, api.Errorf(api.CodeFailure, "restart %s: %w", name, err).WithHint("see `uetlab events` and `uetlab logs %s`", name)
		}
		if joins != before {
			break
		}
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

// lastJoin tells how often a restarted node has come back, and whether it could be taken the last time.
func (n *node) lastJoin() (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joins, n.joined
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
