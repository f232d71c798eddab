package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/link"
)

// collector reads the shared pages whenever Prometheus asks.
type collector struct{ d *Daemon }

var (
	portLabels = []string{"lab", "node", "port", "link"}
	nodeLabels = []string{"lab", "node"}

	descInfo    = prometheus.NewDesc("uetlab_lab_info", "The lab; always 1.", []string{"lab", "topology", "runtime", "time", "version"}, nil)
	descDrops   = prometheus.NewDesc("uetlab_port_drops_total", "Frames dropped at a port, by reason.", append(append([]string(nil), portLabels...), "reason"), nil)
	descHorizon = prometheus.NewDesc("uetlab_node_horizon_seconds", "Virtual time up to which the node has handled all events.", nodeLabels, nil)
	descSweeps  = prometheus.NewDesc("uetlab_node_sweeps_total", "Sweeps of the node's loop that handled an event.", nodeLabels, nil)
	descLate    = prometheus.NewDesc("uetlab_node_late_frames_total", "Frames that arrived after their due time; anything but 0 is a fault.", nodeLabels, nil)
	descUp      = prometheus.NewDesc("uetlab_node_up", "1 while the node lives.", nodeLabels, nil)

	descPort [link.NumCounters]*prometheus.Desc
	descFEP  [fep.NumCounters]*prometheus.Desc
)

func init() {
	for c := range link.NumCounters {
		switch {
		case c.IsGauge(): // of all egress queues together
			descPort[c] = prometheus.NewDesc("uetlab_port_"+c.String(), "Port gauge "+c.String()+".", portLabels, nil)
		case !c.IsDrop():
			descPort[c] = prometheus.NewDesc("uetlab_port_"+c.String()+"_total", "Port counter "+c.String()+".", portLabels, nil)
		}
	}
	for c := range fep.NumCounters {
		descFEP[c] = prometheus.NewDesc("uetlab_fep_"+c.String()+suffix(c.IsGauge()), "End point counter "+c.String()+".", nodeLabels, nil)
	}
}

func suffix(gauge bool) string {
	if gauge {
		return ""
	}
	return "_total"
}

func kind(gauge bool) prometheus.ValueType {
	if gauge {
		return prometheus.GaugeValue
	}
	return prometheus.CounterValue
}

// Describe implements prometheus.Collector: what there is follows from the lab.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	d := c.d
	put := func(desc *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, t, v, labels...)
	}
	l := d.lab()
	put(descInfo, prometheus.GaugeValue, 1, l.Name, l.Topology, l.Runtime, l.Time, l.Version)
	for i, n := range d.nodes {
		up := 1.0
		if n.isDead() {
			up = 0
		}
		put(descUp, prometheus.GaugeValue, up, l.Name, n.name)
		put(descHorizon, prometheus.GaugeValue, float64(n.page.Horizon.Load())/1e9, l.Name, n.name)
		put(descSweeps, prometheus.CounterValue, float64(n.page.Sweeps.Load()), l.Name, n.name)
		put(descLate, prometheus.CounterValue, float64(n.page.Late.Load()), l.Name, n.name)
		p := &d.plan.Nodes[i]
		for q := range p.Ports {
			c.port(put, l.Name, n.page, p, q)
		}
		if p.Kind == topology.KindFEP {
			for f := range fep.NumCounters {
				put(descFEP[f], kind(f.IsGauge()), float64(n.page.FEP[f].Load()), l.Name, n.name)
			}
		}
	}
	c.pdcs(ch, l.Name)
	c.ccs(ch, l.Name)
	c.queues(ch, l.Name)
	links, _ := c.d.plan.FindLinks(nil) // all
	c.phy(ch, l.Name, links)
	c.llrs(ch, l.Name, links)
	c.credits(ch, l.Name, links)
	c.neighbours(ch, l.Name)
}

func (c collector) port(put func(*prometheus.Desc, prometheus.ValueType, float64, ...string), lab string, page *clock.NodePage, p *topology.Node, q int) {
	name, ln := p.Ports[q].Name, c.d.plan.Links[p.Ports[q].Link].Name
	used := linkCounters(page, q)
	for k := range link.NumCounters {
		if !used(k) {
			continue
		}
		v := float64(page.Ports[q][k].Load())
		if k.IsDrop() {
			put(descDrops, prometheus.CounterValue, v, lab, p.Name, name, ln, k.String()[len("drop_"):])
			continue
		}
		put(descPort[k], kind(k.IsGauge()), v, lab, p.Name, name, ln)
	}
}
