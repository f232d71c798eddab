package control

import (
	"context"
	"os"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

func (d *Daemon) lab() api.Lab {
	t := d.opt.Time
	if t == "" {
		t = "auto"
	}
	if d.real() {
		t = "real"
	}
	state := d.state.Load().(string)
	d.runMu.Lock()
	if d.cur != nil && state == api.LabReady {
		state = api.LabRunning
	}
	d.runMu.Unlock()
	return api.Lab{Name: d.opt.Lab, Topology: d.opt.Topology, Runtime: d.rt.Name(), Time: t, Seed: d.opt.Seed, Pid: os.Getpid(), State: state,
		CreatedAt: d.created, Version: d.opt.Version, Nodes: len(d.plan.Nodes), Links: len(d.plan.Links), Rootless: d.opt.Rootless, Dir: d.dir.Path}
}

// portCounters gives a port's counters by name, those of link layer retry and of CBFC where there is any.
func (d *Daemon) portCounters(node, port int) map[string]uint64 {
	m := make(map[string]uint64, link.NumCounters)
	used := linkCounters(d.nodes[node].page, port)
	for c := range link.NumCounters {
		if !used(c) {
			continue
		}
		m[c.String()] = d.nodes[node].page.Ports[port][c].Load()
	}
	return m
}

func (d *Daemon) fepCounters(node int) map[string]uint64 {
	if d.plan.Nodes[node].Kind != topology.KindFEP {
		return nil
	}
	m := make(map[string]uint64, fep.NumCounters)
	for c := range fep.NumCounters {
		m[c.String()] = d.nodes[node].page.FEP[c].Load()
	}
	return m
}

func (d *Daemon) nodeStatus() []api.NodeStatus {
	d.runMu.Lock()
	cur := d.cur
	d.runMu.Unlock()
	out := make([]api.NodeStatus, 0, len(d.nodes))
	for i, n := range d.nodes {
		p := &d.plan.Nodes[i]
		s := api.NodeStatus{Name: n.name, ID: i, Kind: string(p.Kind), Tier: p.Tier, State: api.NodeUp, Addr4: p.Addr4.String(), Addr6: p.Addr6.String(),
			Ports: len(p.Ports), HorizonNs: n.page.Horizon.Load(), NextNs: n.page.Next.Load()}
		if vt.Time(s.NextNs) == vt.Never {
			s.NextNs = -1
		}
		if n.isDead() {
			s.State = api.NodeDead
		}
		if h, ok := d.handle(i); ok {
			s.Pid, s.Container = h.Pid, h.Ref
		}
		if cur != nil {
			for r, id := range cur.ranks {
				if id == i {
					s.Ranks = append(s.Ranks, r)
				}
			}
		}
		var sum link.Counters
		for q := range p.Ports {
			for c := range sum {
				sum[c] += n.page.Ports[q][c].Load()
			}
		}
		s.Counters = map[string]uint64{"tx_frames": sum[link.TxFrames], "rx_frames": sum[link.RxFrames], "drops": sum.Drops(), "late": sum[link.Late]}
		out = append(out, s)
	}
	return out
}

func (d *Daemon) linkStatus() []api.LinkStatus {
	d.time.mu.Lock()
	states := d.faults.At(d.virtualNow(&d.time))
	d.time.mu.Unlock()
	agreed := d.agreed(states)
	out := make([]api.LinkStatus, 0, len(d.plan.Links))
	for i := range d.plan.Links {
		l := &d.plan.Links[i]
		end := func(e topology.End) api.End {
			return api.End{Node: d.nodes[e.Node].name, Port: d.plan.Nodes[e.Node].Ports[e.Port].Name}
		}
		s := api.LinkStatus{Name: l.Name, A: end(l.A), B: end(l.B), RateBps: l.Rate, DelayNs: int64(l.Delay), State: api.LinkUp, LLR: states[i].LLR, CBFC: states[i].CBFC, Agreed: agreed[i],
			AB: api.Direction{Impair: api.ImpairOf(states[i].AB), LLR: d.llrState(l.A.Node, l.A.Port), Counters: d.portCounters(l.A.Node, l.A.Port)},
			BA: api.Direction{Impair: api.ImpairOf(states[i].BA), LLR: d.llrState(l.B.Node, l.B.Port), Counters: d.portCounters(l.B.Node, l.B.Port)}}
		if d.real() { // nobody has either
			s.LLR, s.CBFC, s.Agreed = false, false, nil
		}
		switch {
		case states[i].Down():
			s.State = api.LinkDown
		case !states[i].Healthy():
			s.State = api.LinkImpaired
		}
		out = append(out, s)
	}
	return out
}

// stats gives the counters of one node, or of all, and the PDCs of end points.
func (d *Daemon) stats(ctx context.Context, name string) ([]api.NodeStats, error) {
	nodes := d.nodes
	if name != "" {
		n, err := d.plan.Node(name)
		if err != nil {
			return nil, api.Errorf(api.CodeNotFound, "stats: %w", err)
		}
		nodes = d.nodes[n.ID : n.ID+1]
	}
	out := make([]api.NodeStats, 0, len(nodes))
	for _, n := range nodes {
		p := &d.plan.Nodes[n.id]
		s := api.NodeStats{Name: n.name, Kind: string(p.Kind), FEP: d.fepCounters(n.id)}
		for i := range p.Ports {
			s.Ports = append(s.Ports, api.PortStats{Name: p.Ports[i].Name, Link: d.plan.Links[p.Ports[i].Link].Name, Counters: d.portCounters(n.id, i)})
		}
		if p.Kind == topology.KindFEP && !n.isDead() {
			var err error
			if s.PDCs, err = d.pdcs(ctx, n, false); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	return out, nil
}
