package control

import (
	"context"
	"fmt"
	"math/bits"
	"net/http"
	"strconv"
	"time"

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
		links, err := d.linksOf(r)
		if err != nil {
			return nil, err
		}
		links = d.withCredits(links)
		return joinCredits(d.plan, links, d.credits(r.Context(), d.livingAt(links), switchWait)), nil
	}))
}

// credits asks nodes for their channels.
func (d *Daemon) credits(ctx context.Context, nodes []*node, wait time.Duration) [][]ctl.Credits {
	return fetchAll[ctl.Credits](ctx, d, wait, nodes, "cbfc")
}

// withCredits are those of some links that the topology has credits for.
func (d *Daemon) withCredits(links []int) (out []int) {
	for _, id := range links {
		if d.plan.Links[id].CBFC != nil {
			out = append(out, id)
		}
	}
	return out
}

// joinCredits puts together what both ends of each direction of links with credits know. Lists are by node.
func joinCredits(plan *topology.Plan, links []int, lists [][]ctl.Credits) []api.Credits {
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
	eachDirection(plan, links, func(l *topology.Link, from, to topology.End) {
		for m := l.CBFC.Profile.Lossless; m != 0; m &= m - 1 {
			vc := bits.TrailingZeros32(m)
			x := api.Credits{Link: l.Name, From: apiEnd(plan, from), To: apiEnd(plan, to)}
			x.Credits = ctl.Credits{Port: x.From.Port, VC: vc, Class: topology.QueueName(vc), State: cbfc.Off}
			if c := known[key{from.Node, x.From.Port, vc}]; c != nil {
				x.Credits = *c
			}
			x.CreditsReceived = ctl.CreditsReceived{}
			if c := known[key{to.Node, x.To.Port, vc}]; c != nil {
				x.CreditsReceived = c.CreditsReceived
			}
			out = append(out, x)
		}
	})
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
	nodes := d.living(func(id int) bool { return now[id] > before[id] })
	if len(nodes) == 0 {
		return
	}
	lists := d.credits(ctx, nodes, switchWait)
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
		value func(c *ctl.Credits) float64
	}{
		{creditDesc("on", "1: frames of the channel need credits; 0: they are best effort."), func(c *ctl.Credits) float64 {
			if c.State == cbfc.Off {
				return 0
			}
			return 1
		}},
		{creditDesc("limit_credits", "Credits that the channel may have out, or all together where they share a total."), func(c *ctl.Credits) float64 { return float64(c.Limit) }},
		{creditDesc("used_credits", "Credits that are out."), func(c *ctl.Credits) float64 { return float64(c.Used) }},
		{creditDesc("used_peak_credits", "The most credits that ever were out since the run began."), func(c *ctl.Credits) float64 { return float64(c.Peak) }},
		{creditDesc("held_credits", "Credits of frames that the port's node stores."), func(c *ctl.Credits) float64 { return float64(c.RxHeld) }},
		{creditDesc("held_peak_credits", "The most credits of frames that the port's node ever stored since the run began."), func(c *ctl.Credits) float64 { return float64(c.RxPeak) }},
		{creditDesc("blocked_seconds", "How long frames of the channel have waited for credits in the latest run."), func(c *ctl.Credits) float64 { return float64(c.BlockedNs) / 1e9 }},
	}
)

func creditDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("uetlab_cbfc_vc_"+name, help, creditLabels, nil)
}

// credits tells of all channels whose nodes answer.
func (c collector) credits(ch chan<- prometheus.Metric, lab string, links []int) {
	for id, list := range c.d.credits(context.Background(), c.d.livingAt(c.d.withCredits(links)), scrapeWait) {
		of := c.d.linkNames(id)
		for i := range list {
			x := &list[i]
			for _, m := range creditMetrics {
				ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.value(x), lab, c.d.nodes[id].name, x.Port, of[x.Port], strconv.Itoa(x.VC), x.Class)
			}
		}
	}
}
