package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/lldp"
)

// askAgents gives what the agents of ports know, by end of a link; ends whose node does not answer are left out. Only nodes with a port for which ask says
// so are asked.
func (d *Daemon) askAgents(ctx context.Context, wait time.Duration, ask func(topology.Port) bool) map[topology.End]*ctl.LLDPPort {
	out := map[topology.End]*ctl.LLDPPort{}
	nodes := d.living(func(id int) bool { return d.takesPart(id) && slices.ContainsFunc(d.plan.Nodes[id].Ports, ask) })
	for id, list := range d.agentPorts(ctx, nodes, wait) {
		for i := range list {
			q := slices.IndexFunc(d.plan.Nodes[id].Ports, func(p topology.Port) bool { return p.Name == list[i].Port })
			if q >= 0 {
				out[topology.End{Node: id, Port: q}] = &list[i]
			}
		}
	}
	return out
}

// agreed says of each negotiated link what its ends want and have agreed on, nil where there is none such.
func (d *Daemon) agreed(states []faults.Link) []*api.Agreed {
	out := make([]*api.Agreed, len(d.plan.Links))
	agents := d.askAgents(context.Background(), switchWait, func(q topology.Port) bool { return q.Negotiated })
	for i := range d.plan.Links {
		l := &d.plan.Links[i]
		if !l.Negotiated {
			continue
		}
		a, b, w := agents[l.A], agents[l.B], states[i].Wish
		out[i] = &api.Agreed{LLR: a != nil && b != nil && a.LLR && b.LLR, CBFC: a != nil && b != nil && a.CBFC && b.CBFC}
		for k, e := range []topology.End{l.A, l.B} {
			if w[k].LLR {
				out[i].WantLLR = append(out[i].WantLLR, d.nodes[e.Node].name)
			}
			if w[k].CBFC {
				out[i].WantCBFC = append(out[i].WantCBFC, d.nodes[e.Node].name)
			}
		}
	}
	return out
}

var (
	descLLDP          [lldp.NumCounters]*prometheus.Desc
	descLLDPNeighbour = prometheus.NewDesc("uetlab_lldp_neighbour", "1: the port knows a neighbour, by its name and port.", append(append([]string(nil), portLabels...), "neighbour", "neighbour_port"), nil)
	descLLDPLLR       = prometheus.NewDesc("uetlab_lldp_llr_agreed", "1: both ends want link layer retry, as far as this port knows.", portLabels, nil)
	descLLDPCBFC      = prometheus.NewDesc("uetlab_lldp_cbfc_agreed", "1: both ends want credit-based flow control, as far as this port knows.", portLabels, nil)
)

func init() {
	for c := range lldp.NumCounters {
		descLLDP[c] = prometheus.NewDesc("uetlab_lldp_"+c.String()+"_total", "LLDP counter "+strings.ReplaceAll(c.String(), "_", " ")+", of the agent since the latest run began.", portLabels, nil)
	}
}

// neighbours gives the metrics of ports with LLDP.
func (c collector) neighbours(ch chan<- prometheus.Metric, lab string) {
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	for end, p := range c.d.askAgents(context.Background(), scrapeWait, func(q topology.Port) bool { return q.LLDP }) {
		q := &c.d.plan.Nodes[end.Node].Ports[end.Port]
		of := []string{lab, c.d.plan.Nodes[end.Node].Name, q.Name, c.d.plan.Links[q.Link].Name}
		for k := range lldp.NumCounters {
			ch <- prometheus.MustNewConstMetric(descLLDP[k], prometheus.CounterValue, float64(p.Counters[k.String()]), of...)
		}
		ch <- prometheus.MustNewConstMetric(descLLDPLLR, prometheus.GaugeValue, flag(p.LLR), of...)
		ch <- prometheus.MustNewConstMetric(descLLDPCBFC, prometheus.GaugeValue, flag(p.CBFC), of...)
		if n := p.Neighbour; n != nil {
			ch <- prometheus.MustNewConstMetric(descLLDPNeighbour, prometheus.GaugeValue, 1, append(of, n.System, n.Port)...)
		}
	}
}
