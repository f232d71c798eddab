package control

import (
	"context"
	"net/http"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

// llrRoutes serves what link layer retry does at the ports.
func (d *Daemon) llrRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/llr", answer1(func(r *http.Request) (any, error) {
		wanted := map[int]bool{}
		for _, name := range r.URL.Query()["link"] {
			ids, err := d.plan.FindLinks(name)
			if err != nil {
				return nil, api.Errorf(api.CodeNotFound, "LLR: %w", err)
			}
			for _, id := range ids {
				wanted[id] = true
			}
		}
		return directions(d.plan, wanted, d.llrPorts(r.Context(), wanted, switchWait)), nil
	}))
}

// llrPorts asks the nodes at the links wanted, or all, for their ports with link layer retry.
func (d *Daemon) llrPorts(ctx context.Context, wanted map[int]bool, wait time.Duration) [][]ctl.LLRPort {
	at := map[int]bool{}
	for id := range wanted {
		at[d.plan.Links[id].A.Node], at[d.plan.Links[id].B.Node] = true, true
	}
	asked := func(id int) bool { return d.takesPart(id) && (len(wanted) == 0 || at[id]) }
	return askAll(ctx, d, wait, d.living(asked), func(ctx context.Context, n *node) (p []ctl.LLRPort, err error) {
		err = d.fetch(ctx, n, "llr", &p)
		return p, err
	})
}

// directions joins what sending and receiving ports of links have told; no link wanted means all.
func directions(plan *topology.Plan, wanted map[int]bool, lists [][]ctl.LLRPort) []api.LLR {
	out := []api.LLR{}
	port := func(e topology.End) *ctl.LLRPort {
		for i := range lists[e.Node] {
			if p := &lists[e.Node][i]; p.Port == plan.Nodes[e.Node].Ports[e.Port].Name {
				return p
			}
		}
		return nil
	}
	end := func(e topology.End) api.End {
		return api.End{Node: plan.Nodes[e.Node].Name, Port: plan.Nodes[e.Node].Ports[e.Port].Name}
	}
	for id := range plan.Links {
		if len(wanted) > 0 && !wanted[id] {
			continue
		}
		l := &plan.Links[id]
		for _, way := range [][2]topology.End{{l.A, l.B}, {l.B, l.A}} {
			from, to := port(way[0]), port(way[1])
			if from == nil {
				continue
			}
			x := api.LLR{Link: l.Name, From: end(way[0]), To: end(way[1]), NowNs: from.NowNs, On: from.On, TX: from.TX, Counters: from.Counters}
			if to != nil {
				x.RX = to.RX
			}
			out = append(out, x)
		}
	}
	return out
}
