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
		return d.phy(r.Context(), r.URL.Query()["link"])
	}))
}

// phy gives both directions of the links that are named, or of all, in the order of the plan.
func (d *Daemon) phy(ctx context.Context, names []string) ([]api.PHY, error) {
	wanted := map[int]bool{}
	for _, name := range names {
		ids, err := d.plan.FindLinks(name)
		if err != nil {
			return nil, api.Errorf(api.CodeNotFound, "phy: %w", err)
		}
		for _, id := range ids {
			wanted[id] = true
		}
	}
	out := []api.PHY{}
	d.eachPHY(ctx, switchWait, wanted, func(l *topology.Link, from topology.End, p api.PHY) { out = append(out, p) })
	return out, nil
}

// eachPHY asks the nodes at the ends of links, all where none is wanted, and tells of each direction that one of them sends in.
func (d *Daemon) eachPHY(ctx context.Context, wait time.Duration, wanted map[int]bool, tell func(l *topology.Link, from topology.End, p api.PHY)) {
	asked := map[int]bool{}
	for i := range d.plan.Links {
		if l := &d.plan.Links[i]; len(wanted) == 0 || wanted[i] {
			asked[l.A.Node], asked[l.B.Node] = true, true
		}
	}
	lists := askAll(ctx, d, wait, d.living(func(id int) bool { return asked[id] && d.takesPart(id) }), func(ctx context.Context, n *node) (p []ctl.PHYPort, err error) {
		err = d.fetch(ctx, n, "phy", &p)
		return p, err
	})
	for i := range d.plan.Links {
		l := &d.plan.Links[i]
		if len(wanted) > 0 && !wanted[i] {
			continue
		}
		direction(d.plan, lists, l, l.A, l.B, tell)
		direction(d.plan, lists, l, l.B, l.A, tell)
	}
}

// direction joins what both ends of a direction know; a far end that does not answer has counted nothing.
func direction(plan *topology.Plan, lists [][]ctl.PHYPort, l *topology.Link, from, to topology.End, tell func(l *topology.Link, from topology.End, p api.PHY)) {
	if from.Port >= len(lists[from.Node]) {
		return
	}
	near, far := &lists[from.Node][from.Port], &ctl.PHYPort{}
	if to.Port < len(lists[to.Node]) {
		far = &lists[to.Node][to.Port]
	}
	name := func(e topology.End) string {
		return plan.Nodes[e.Node].Name + ":" + plan.Nodes[e.Node].Ports[e.Port].Name
	}
	p := api.PHYOf(near.PHY, near.TxFrames, near.TxBytes, far.FCSErrors, far.Preambles)
	p.Link, p.From, p.To = l.Name, name(from), name(to)
	tell(l, from, p)
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
func (c collector) phy(ch chan<- prometheus.Metric, lab string) {
	c.d.eachPHY(context.Background(), scrapeWait, nil, func(l *topology.Link, from topology.End, p api.PHY) {
		n := &c.d.plan.Nodes[from.Node]
		labels := []string{lab, n.Name, n.Ports[from.Port].Name, l.Name}
		for _, m := range phyMetrics {
			ch <- prometheus.MustNewConstMetric(descPHY[m.name], kind(m.gauge), m.value(&p), labels...)
		}
		for k, v := range p.Histogram {
			ch <- prometheus.MustNewConstMetric(descPHYWords, prometheus.CounterValue, float64(v), append(labels, strconv.Itoa(k))...)
		}
	})
}
