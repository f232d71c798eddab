package control

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
)

// phyRoutes serves the physical layer of links.
func (d *Daemon) phyRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /v1/phy", answer1(func(r *http.Request) (any, error) {
		links, err := d.linksOf(r)
		if err != nil {
			return nil, err
		}
		return joinPHY(d.plan, links, d.phy(r.Context(), links, switchWait)), nil
	}))
}

// phy asks the nodes at links for the physical layer of their ports.
func (d *Daemon) phy(ctx context.Context, links []int, wait time.Duration) [][]ctl.PHYPort {
	return fetchAll[ctl.PHYPort](ctx, d, wait, d.livingAt(links), "phy")
}

// joinPHY puts together what both ends of each direction of links know; lists are by node and port. A far end that does not answer has counted nothing.
func joinPHY(plan *topology.Plan, links []int, lists [][]ctl.PHYPort) []api.PHY {
	out := []api.PHY{}
	eachDirection(plan, links, func(l *topology.Link, from, to topology.End) {
		if from.Port >= len(lists[from.Node]) {
			return
		}
		near, far := &lists[from.Node][from.Port], &ctl.PHYPort{}
		if to.Port < len(lists[to.Node]) {
			far = &lists[to.Node][to.Port]
		}
		p := api.PHYOf(near.PHY, near.TxFrames, near.TxBytes, far.FCSErrors, far.Preambles)
		p.Link, p.From, p.To = l.Name, apiEnd(plan, from), apiEnd(plan, to)
		out = append(out, p)
	})
	return out
}

var (
	descPHY = map[string]*prometheus.Desc{}
	// descPHYWords has a label of its own.
	descPHYWords = prometheus.NewDesc("uetlab_phy_codewords_by_symbol_errors_total", "Codewords of a direction by wrong symbols, 16 and more in one.", append(append([]string(nil), portLabels...), "symbols"), nil)
)

// phyMetrics are the others: name, help, value.
var phyMetrics = []struct {
	name, help string
	gauge      bool
	value      func(p *api.PHY) float64
}{
	{"codewords_total", "Codewords that the direction which begins at the port has carried, idle or not.", false, func(p *api.PHY) float64 { return float64(p.Codewords) }},
	{"corrected_codewords_total", "Of them, those with wrong symbols that FEC corrected (an expectation).", false, func(p *api.PHY) float64 { return float64(p.Corrected) }},
	{"uncorrectable_codewords_total", "Of them, those that FEC could not correct.", false, func(p *api.PHY) float64 { return float64(p.Uncorrectable) }},
	{"symbol_errors_total", "Symbols that FEC corrected (an expectation).", false, func(p *api.PHY) float64 { return float64(p.SymbolErrors) }},
	{"corrected_bits_total", "Bits that FEC corrected (an expectation).", false, func(p *api.PHY) float64 { return p.CorrectedBits }},
	{"wrong_bits_total", "Bits of frames that were wrong behind FEC.", false, func(p *api.PHY) float64 { return float64(p.WrongBits) }},
	{"fcs_errors_total", "Frames with a wrong FCS at the far end.", false, func(p *api.PHY) float64 { return float64(p.FCSErrors) }},
	{"link_flaps_total", "Times that the link went down in this direction.", false, func(p *api.PHY) float64 { return float64(p.Flaps) }},
	{"pcs_up", "1 while the far end has a signal.", true, func(p *api.PHY) float64 { return map[bool]float64{true: 1}[p.Up] }},
	{"ucr", "Uncorrectable codewords, as a share.", true, func(p *api.PHY) float64 { return p.UCR }},
	{"mtbpe_seconds", "Mean time between phy errors, virtual; 0: none yet.", true, func(p *api.PHY) float64 { return p.MTBPENs / 1e9 }},
	{"raw_ber", "Bit error rate before FEC, estimated from corrected bits.", true, func(p *api.PHY) float64 { return p.RawBER }},
	{"post_fec_ber", "Bit error rate behind FEC, in frames.", true, func(p *api.PHY) float64 { return p.PostBER }},
	{"frame_loss_ratio", "Frames sent of which the far end found FCS or preamble damaged, as a share.", true, func(p *api.PHY) float64 { return p.FrameLoss }},
}

func init() {
	for _, m := range phyMetrics {
		descPHY[m.name] = prometheus.NewDesc("uetlab_phy_"+m.name, m.help, portLabels, nil)
	}
}

// phy tells of all directions whose nodes answer.
func (c collector) phy(ch chan<- prometheus.Metric, lab string, links []int) {
	list := joinPHY(c.d.plan, links, c.d.phy(context.Background(), links, scrapeWait))
	for i := range list {
		p := &list[i]
		labels := []string{lab, p.From.Node, p.From.Port, p.Link}
		for _, m := range phyMetrics {
			ch <- prometheus.MustNewConstMetric(descPHY[m.name], kind(m.gauge), m.value(p), labels...)
		}
		for k, v := range p.Histogram {
			ch <- prometheus.MustNewConstMetric(descPHYWords, prometheus.CounterValue, float64(v), append(labels, strconv.Itoa(k))...)
		}
	}
}
