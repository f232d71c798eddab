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
		links, err := d.linksOf(r)
		if err != nil {
			return nil, err
		}
		return joinLLR(d.plan, links, d.llr(r.Context(), links, switchWait)), nil
	}))
}

// llr asks the nodes at links for their ports with link layer retry.
func (d *Daemon) llr(ctx context.Context, links []int, wait time.Duration) [][]ctl.LLRPort {
	return fetchAll[ctl.LLRPort](ctx, d, wait, d.livingAt(links), "llr")
}

// joinLLR puts together what both ends of each direction of links know; lists are by node.
func joinLLR(plan *topology.Plan, links []int, lists [][]ctl.LLRPort) []api.LLR {
	out := []api.LLR{}
	port := func(e api.End, list []ctl.LLRPort) *ctl.LLRPort {
		for i := range list {
			if list[i].Port == e.Port {
				return &list[i]
			}
		}
		return nil
	}
	eachDirection(plan, links, func(l *topology.Link, from, to topology.End) {
		x := api.LLR{Link: l.Name, From: apiEnd(plan, from), To: apiEnd(plan, to)}
		near, far := port(x.From, lists[from.Node]), port(x.To, lists[to.Node])
		if near == nil {
			return
		}
		x.NowNs, x.On, x.TX, x.Counters = near.NowNs, near.On, near.TX, near.Counters
		if far != nil {
			x.RX = far.RX
		}
		out = append(out, x)
	})
	return out
}
