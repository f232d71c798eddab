package control

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	ccLabels = []string{"lab", "node", "peer", "tc", "algorithm"}

	descCwnd     = prometheus.NewDesc("uetlab_cc_window_bytes", "Congestion window of a context; for rates, that of one base RTT.", ccLabels, nil)
	descFlight   = prometheus.NewDesc("uetlab_cc_inflight_bytes", "Nominal bytes of a context that are under way.", ccLabels, nil)
	descDelay    = prometheus.NewDesc("uetlab_cc_delay_seconds", "Queueing delay that a context sees, averaged.", ccLabels, nil)
	descBaseRTT  = prometheus.NewDesc("uetlab_cc_base_rtt_seconds", "Round-trip time of a context without any queue, as far as it has seen.", ccLabels, nil)
	descECNShare = prometheus.NewDesc("uetlab_cc_ecn_share", "Share of the latest ACKs of a context that came with a mark, 0 to 1.", ccLabels, nil)
)

// ccs asks all end points at once for their congestion control contexts; one that does not answer is left out.
func (c collector) ccs(ch chan<- prometheus.Metric, lab string) {
	nodes, err := c.d.endPoints("", "")
	if err != nil {
		return
	}
	for i, l := range askAll(context.Background(), c.d, scrapeWait, nodes, c.d.fetchCCs) {
		if l == nil {
			continue
		}
		for _, x := range l.List {
			put := func(desc *prometheus.Desc, v float64) {
				ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, lab, c.d.nodes[i].name, c.d.nameOf(x.PeerAddr), strconv.Itoa(int(x.TC)), x.Algorithm)
			}
			put(descCwnd, float64(x.Cwnd))
			put(descFlight, float64(x.InFlight))
			put(descDelay, float64(x.DelayNs)/1e9)
			put(descBaseRTT, float64(x.BaseRTTNs)/1e9)
			put(descECNShare, x.ECNShare)
		}
	}
}
