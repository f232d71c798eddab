package control

import (
	"context"
	"net/http"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/lldp"
)

// lldpRoutes serves what ports have heard by LLDP.
func (d *Daemon) lldpRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/lldp", answer1(func(r *http.Request) (any, error) {
		return d.neighbours(r.Context(), r.URL.Query().Get("node"))
	}))
}

// neighbours gives the ports with LLDP of one node, or of all, and what is wrong with their cables.
func (d *Daemon) neighbours(ctx context.Context, name string) ([]api.LLDP, error) {
	if name != "" {
		p, err := d.plan.Node(name)
		if err != nil {
			return nil, api.Errorf(api.CodeNotFound, "LLDP: %w", err)
		}
		if !d.takesPart(p.ID) {
			return nil, api.Errorf(api.CodeUsage, "node %s is a plain host: it has no ports of the lab's", name)
		}
		ctx, cancel := context.WithTimeout(ctx, switchWait)
		defer cancel()
		lists := make([][]ctl.LLDPPort, len(d.nodes))
		if err := d.fetch(ctx, d.nodes[p.ID], "lldp", &lists[p.ID]); err != nil {
			return nil, err
		}
		return d.tellMistakes(heard(d.plan, lists)), nil
	}
	return d.tellMistakes(heard(d.plan, d.agentPorts(ctx, d.living(d.takesPart), switchWait))), nil
}

// agentPorts asks nodes for their ports with LLDP.
func (d *Daemon) agentPorts(ctx context.Context, nodes []*node, wait time.Duration) [][]ctl.LLDPPort {
	return fetchAll[ctl.LLDPPort](ctx, d, wait, nodes, "lldp")
}

// tellMistakes makes an event of each port that hears somebody else than before, if that is not who the topology says, or is again. Ports that
// hear nobody make none: a link may be down.
func (d *Daemon) tellMistakes(list []api.LLDP) []api.LLDP {
	for i := range list {
		p := &list[i]
		if p.Neighbour == nil {
			continue
		}
		port := lldp.End{Node: p.Node, Port: p.Port}
		d.mu.Lock()
		was := d.wrongTold[port]
		d.wrongTold[port] = p.Mistake
		d.mu.Unlock()
		switch {
		case p.Mistake == was:
		case p.Mistake == "":
			d.event("lldp", p.Node, "", port.String()+": the neighbour is the one of the topology again")
		default:
			d.event("lldp", p.Node, "", p.Mistake)
		}
	}
	return list
}

// heardAt makes an event of what LLDP has brought about at a port.
func (d *Daemon) heardAt(n *node, e *ctl.LLDPEvent) {
	ports := d.plan.Nodes[n.id].Ports
	if e.Port < 0 || e.Port >= len(ports) {
		return
	}
	d.event("lldp", n.name, d.plan.Links[ports[e.Port].Link].Name, ports[e.Port].Name+": "+e.Text)
}

// heard names the nodes of what their ports have heard, by node, and compares it with the plan.
func heard(plan *topology.Plan, lists [][]ctl.LLDPPort) []api.LLDP {
	out := []api.LLDP{}
	var links []lldp.Link
	for id, list := range lists {
		for _, p := range list {
			l := lldp.Link{Local: lldp.End{Node: plan.Nodes[id].Name, Port: p.Port}}
			if n := p.Neighbour; n != nil {
				l.Peer, l.Found = lldp.End{Node: n.System, Port: n.Port}, true
			}
			links = append(links, l)
			out = append(out, api.LLDP{Node: plan.Nodes[id].Name, LLDPPort: p})
		}
	}
	wrong := map[lldp.End]string{}
	for _, m := range lldp.CheckWiring(wires(plan), links) {
		wrong[m.Local] = m.String()
	}
	for i := range out {
		out[i].Mistake = wrong[links[i].Local]
	}
	return out
}

// wires are the ends of the plan's links with LLDP whose far ends have agents too.
func wires(plan *topology.Plan) (links []lldp.Link) {
	for i := range plan.Nodes {
		for _, q := range plan.Nodes[i].Ports {
			peer := &plan.Nodes[q.Peer]
			if q.LLDP && peer.Kind != topology.KindHost {
				links = append(links, lldp.Link{Local: lldp.End{Node: plan.Nodes[i].Name, Port: q.Name}, Peer: lldp.End{Node: peer.Name, Port: peer.Ports[q.PeerIdx].Name}})
			}
		}
	}
	return links
}
