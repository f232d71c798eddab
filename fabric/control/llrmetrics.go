package control

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/internal/ctl"
)

var (
	llrLabels = append(append([]string(nil), portLabels...), "side")

	descAck      = prometheus.NewDesc("uetlab_llr_ack_latency_seconds", "Virtual time from when frames left first to their ACK, since the run began or LLR was turned on.", portLabels, nil)
	descSpurious = prometheus.NewDesc("uetlab_llr_spurious_replays", "Replays that brought the port nothing but duplicates, since the run began or LLR was turned on.", portLabels, nil)
	descIn       = prometheus.NewDesc("uetlab_llr_state_seconds", "Virtual time spent in a state, since the run began or LLR was turned on.", append(llrLabels, "state"), nil)
	descState    = prometheus.NewDesc("uetlab_llr_state", "1 for the state that the port is in, by side: tx or rx.", append(llrLabels, "state"), nil)
)

// llrs asks the nodes for ports with link layer retry, if their pages show that there ever was any.
func (c collector) llrs(ch chan<- prometheus.Metric, lab string, links []int) {
	if !c.d.anyLLR() {
		return
	}
	for id, list := range c.d.llr(context.Background(), links, scrapeWait) {
		of := c.d.linkNames(id)
		for i := range list {
			p := &list[i]
			labels := []string{lab, c.d.nodes[id].name, p.Port, of[p.Port]}
			ch <- latencyMetric(&p.TX.Ack, labels)
			ch <- prometheus.MustNewConstMetric(descSpurious, prometheus.GaugeValue, float64(p.RX.Spurious), labels...)
			states(ch, append(labels, "tx"), p.TX.State, p.TX.InNs)
			states(ch, append(labels, "rx"), p.RX.State, p.RX.InNs)
		}
	}
}

// anyLLR says whether the page of some node has counters of link layer retry.
func (d *Daemon) anyLLR() bool {
	for i, n := range d.nodes {
		for q := range d.plan.Nodes[i].Ports {
			if _, used := portLLR(n.page, q); used {
				return true
			}
		}
	}
	return false
}

// states gives the state that is, and the time in each that ever was.
func states(ch chan<- prometheus.Metric, labels []string, now string, in map[string]int64) {
	ch <- prometheus.MustNewConstMetric(descState, prometheus.GaugeValue, 1, append(labels, now)...)
	for s, ns := range in {
		ch <- prometheus.MustNewConstMetric(descIn, prometheus.GaugeValue, float64(ns)/1e9, append(labels, s)...)
	}
}

// ackBounds are the bounds of the histogram, in ns: powers of two, which are bounds of the node's finer buckets too.
const firstAckBound, lastAckBound = 128, 1 << 21

// latencyMetric joins the buckets of a latency to fewer.
func latencyMetric(a *ctl.LLRLatency, labels []string) prometheus.Metric {
	buckets := map[float64]uint64{}
	for bound := int64(firstAckBound); bound <= lastAckBound; bound *= 2 {
		var n uint64
		for _, b := range a.Buckets {
			if b.BelowNs <= bound && !b.Above {
				n += b.Count
			}
		}
		buckets[float64(bound)/1e9] = n
	}
	return prometheus.MustNewConstHistogram(descAck, a.Count, float64(a.SumNs)/1e9, buckets, labels...)
}
