package control

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/internal/ctl"
)

var (
	pdcLabels = []string{"lab", "node", "pdc", "peer", "role"}

	descPDCs     = prometheus.NewDesc("uetlab_fep_pdcs_open", "PDCs that are open at an end point.", nodeLabels, nil)
	descStates   = prometheus.NewDesc("uetlab_fep_pdcs_by_state", "PDCs of an end point, by state, mode and role.", append(append([]string(nil), nodeLabels...), "state", "mode", "role"), nil)
	descRCs      = prometheus.NewDesc("uetlab_fep_responses_total", "Error responses that an end point gave (tx) and took as a verdict (rx), by return code.", append(append([]string(nil), nodeLabels...), "direction", "code"), nil)
	descNacks    = prometheus.NewDesc("uetlab_fep_nacks_total", "NACKs that an end point sent (tx) and accepted (rx), by code.", append(append([]string(nil), nodeLabels...), "direction", "code"), nil)
	descInflight = prometheus.NewDesc("uetlab_pdc_inflight_bytes", "Nominal bytes of the PDC that are not acknowledged.", pdcLabels, nil)
	descWindow   = prometheus.NewDesc("uetlab_pdc_window_bytes", "Congestion window of the PDC.", pdcLabels, nil)
	descRetx     = prometheus.NewDesc("uetlab_pdc_retx_total", "Packets of the PDC that were sent again.", pdcLabels, nil)
	descRTT      = prometheus.NewDesc("uetlab_pdc_rtt_seconds", "Latest round-trip time that the PDC has measured; none yet, none here.", pdcLabels, nil)
	descRTTMin   = prometheus.NewDesc("uetlab_pdc_rtt_min_seconds", "Least round-trip time that the PDC has measured.", pdcLabels, nil)
)

// pdcs asks all end points at once for their PDCs; one that does not answer is left out.
func (c collector) pdcs(ch chan<- prometheus.Metric, lab string) {
	for i, l := range c.d.fabricPDCs(context.Background(), scrapeWait) {
		if l != nil {
			c.nodePDCs(ch, []string{lab, c.d.nodes[i].name}, l)
		}
	}
}

// nodePDCs gives the metrics of one end point; labels are lab and node.
func (c collector) nodePDCs(ch chan<- prometheus.Metric, labels []string, l *ctl.PDCs) {
	put := func(desc *prometheus.Desc, t prometheus.ValueType, v float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(desc, t, v, append(append([]string(nil), labels...), more...)...)
	}
	type kind struct{ state, mode, role string }
	kinds := map[kind]int{}
	open := 0
	for _, p := range l.List {
		if p.Ended {
			continue
		}
		open++
		kinds[kind{p.State, p.Mode, p.Role}]++
		of := []string{strconv.Itoa(int(p.ID)), c.d.nameOf(p.PeerAddr), p.Role}
		put(descInflight, prometheus.GaugeValue, float64(p.InFlight), of...)
		put(descWindow, prometheus.GaugeValue, float64(p.Window), of...)
		put(descRetx, prometheus.CounterValue, float64(p.Retx), of...)
		if p.RTTNs > 0 {
			put(descRTT, prometheus.GaugeValue, float64(p.RTTNs)/1e9, of...)
			put(descRTTMin, prometheus.GaugeValue, float64(p.RTTMinNs)/1e9, of...)
		}
	}
	put(descPDCs, prometheus.GaugeValue, float64(open))
	for k, n := range kinds {
		put(descStates, prometheus.GaugeValue, float64(n), k.state, k.mode, k.role)
	}
	for direction, codes := range map[string]map[string]uint64{"tx": l.NacksTx, "rx": l.NacksRx} {
		for code, n := range codes {
			put(descNacks, prometheus.CounterValue, float64(n), direction, code)
		}
	}
	for direction, codes := range map[string]map[string]uint64{"tx": l.RCsTx, "rx": l.RCsRx} {
		for code, n := range codes {
			put(descRCs, prometheus.CounterValue, float64(n), direction, code)
		}
	}
}
