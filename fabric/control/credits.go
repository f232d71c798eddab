package control

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
)

// creditRoutes serves the virtual channels of links.
func (d *Daemon) creditRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/cbfc", answer1(func(r *http.Request) (any, error) {
		if d.real() { // there are none, whatever the topology says
			return []api.Credits{}, nil
		}
		return joinCredits(d.plan, d.credits(r.Context())), nil
	}))
}

// credits asks the nodes with credits for their channels.
func (d *Daemon) credits(ctx context.Context) [][]ctl.Credits {
	return askAll(ctx, d, switchWait, d.living(d.hasCredits), func(ctx context.Context, n *node) (list []ctl.Credits, err error) {
		err = d.fetch(ctx, n, "cbfc", &list)
		return list, err
	})
}

// hasCredits says whether the topology has credits for a node.
func (d *Daemon) hasCredits(id int) bool {
	for i := range d.plan.Nodes[id].Ports {
		if d.plan.Nodes[id].Ports[i].CBFC != nil && d.takesPart(id) {
			return true
		}
	}
	return false
}

// joinCredits puts together what both ends of each direction know, in the order of links. Lists are by node.
func joinCredits(plan *topology.Plan, lists [][]ctl.Credits) []api.Credits {
	type key struct {
		node int
		port string
		vc   int
	}
	known := map[key]*ctl.Credits{}
	for id := range lists {
		for i := range lists[id] {
			c := &lists[id][i]
			known[key{id, c.Port, c.VC}] = c
		}
	}
	out := []api.Credits{}
	for i := range plan.Links {
		l := &plan.Links[i]
		if l.CBFC == nil {
			continue
		}
		for _, way := range [][2]topology.End{{l.A, l.B}, {l.B, l.A}} {
			from, to := &plan.Nodes[way[0].Node], &plan.Nodes[way[1].Node]
			for vc := range link.NumQueues {
				if l.CBFC.Profile.Lossless>>vc&1 == 0 {
					continue
				}
				r := api.Credits{Link: l.Name, From: from.Name, To: to.Name,
					Credits: ctl.Credits{Port: from.Ports[way[0].Port].Name, VC: vc, Class: topology.QueueName(vc), State: cbfc.Off}}
				if c := known[key{from.ID, r.Port, vc}]; c != nil {
					r.Credits = *c
				}
				r.Receives, r.RxHeld, r.RxPeak, r.RxConsumed, r.RxFreed = false, 0, 0, 0, 0
				if c := known[key{to.ID, to.Ports[way[1].Port].Name, vc}]; c != nil {
					r.Receives, r.RxHeld, r.RxPeak, r.RxConsumed, r.RxFreed = c.Receives, c.RxHeld, c.RxPeak, c.RxConsumed, c.RxFreed
				}
				out = append(out, r)
			}
		}
	}
	return out
}

// starvings are how often channels of each node have waited too long for credits.
func (d *Daemon) starvings() []uint64 {
	all := make([]uint64, len(d.nodes))
	for i, n := range d.nodes {
		for q := range d.plan.Nodes[i].Ports {
			all[i] += n.page.Ports[q][link.FirstCBFC+link.Counter(cbfc.Watchdogs)].Load()
		}
	}
	return all
}

// tellStarved says in an event for each channel that has waited in the run for longer than its watchdog bears. Nodes are asked only where one has.
func (d *Daemon) tellStarved(ctx context.Context, before []uint64) {
	now := d.starvings()
	nodes := d.living(func(id int) bool { return now[id] > before[id] && d.hasCredits(id) })
	if len(nodes) == 0 {
		return
	}
	lists := askAll(ctx, d, switchWait, nodes, func(ctx context.Context, n *node) (list []ctl.Credits, err error) {
		err = d.fetch(ctx, n, "cbfc", &list)
		return list, err
	})
	for id, list := range lists {
		for _, c := range list {
			if c.Watchdogs > 0 {
				d.event("cbfc", d.nodes[id].name, "", fmt.Sprintf("in the run: %s waited too long for credits of channel %d (%s), %d times; %d of %d credits are out",
					c.Port, c.VC, c.Class, c.Watchdogs, c.Used, c.Limit))
			}
		}
	}
}

var (
	creditLabels = append(append([]string(nil), portLabels...), "vc", "class")

	creditMetrics = []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value func(c *ctl.Credits) float64
	}{
		{creditDesc("on", "1: frames of the channel need credits; 0: they are best effort."), prometheus.GaugeValue, func(c *ctl.Credits) float64 {
			if c.State == cbfc.Off {
				return 0
			}
			return 1
		}},
		{creditDesc("limit_credits", "Credits that the channel may have out, or all together where they share a total."), prometheus.GaugeValue, func(c *ctl.Credits) float64 { return float64(c.Limit) }},
		{creditDesc("used_credits", "Credits that are out."), prometheus.GaugeValue, func(c *ctl.Credits) float64 { return float64(c.Used) }},
		{creditDesc("used_peak_credits", "The most credits that ever were out since the run began."), prometheus.GaugeValue, func(c *ctl.Credits) float64 { return float64(c.Peak) }},
		{creditDesc("held_credits", "Credits of frames that the port's node stores."), prometheus.GaugeValue, func(c *ctl.Credits) float64 { return float64(c.RxHeld) }},
		{creditDesc("held_peak_credits", "The most credits of frames that the port's node ever stored since the run began."), prometheus.GaugeValue, func(c *ctl.Credits) float64 { return float64(c.RxPeak) }},
		{creditDesc("blocked_seconds", "How long frames of the channel have waited for credits in the latest run."), prometheus.GaugeValue, func(c *ctl.Credits) float64 { return float64(c.BlockedNs) / 1e9 }},
	}
)

func creditDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("uetlab_cbfc_vc_"+name, help, creditLabels, nil)
}

// credits asks all nodes at once for their channels.
func (c collector) credits(ch chan<- prometheus.Metric, lab string) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	for id, list := range c.d.credits(ctx) {
		p := &c.d.plan.Nodes[id]
		links := map[string]string{}
		for _, q := range p.Ports {
			links[q.Name] = c.d.plan.Links[q.Link].Name
		}
		for i := range list {
			x := &list[i]
			for _, m := range creditMetrics {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(x), lab, p.Name, x.Port, links[x.Port], fmt.Sprint(x.VC), x.Class)
			}
		}
	}
}
