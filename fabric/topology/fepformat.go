package topology

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/uetlab/uetlab/fep/pds"
)

// FormatFEP writes what congestion management of an end point comes to, all defaults worked out, with the keys of a topology file: those
// of the algorithms that are chosen. Fractions have six digits.
func (p *Plan) FormatFEP(node int) ([]KeyValue, error) {
	c, a := p.Nodes[node].FEP, p.Around(node)
	d, err := c.Resolved(a)
	if err != nil {
		return nil, err
	}
	params := c.said(&d)
	sections := c.sections(&d)
	var list []KeyValue
	eachLeaf(params.managed(), "", func(name string, f field) {
		section, _, nested := strings.Cut(name, ".")
		v, says := f.to.print()
		switch {
		case nested && section == "signals" && v == wordOn, nested && section != "signals" && !slices.Contains(sections, section), !nested && !says:
			return
		case name == "window" && c.CC != "", name == "ackTrigger" && c.AckEach:
			return
		case !says:
			v = literal("0")
			if g, ok := f.to.(interface{ none() string }); ok && g.none() != "" {
				v = g.none()
			}
		}
		if name == "rto" {
			v = c.timeouts(&d)
		}
		list = append(list, KeyValue{name, readable(v)})
	})
	return list, nil
}

// timeouts says how long they are.
func (c *FEPConfig) timeouts(d *pds.Config) string {
	if d.RTOConstant {
		return rtoHtsim + ", always " + durations.format(int64(d.RTOInit))
	}
	return rtoSpec + ", from " + durations.format(int64(d.RTOInit)) + " on"
}

// said says the resolved configuration as parameters that make it.
func (c *FEPConfig) said(d *pds.Config) *FEPParams {
	p := &FEPParams{Transport: TransportUET, CC: cmp.Or(c.CC, ccFixed), LB: d.LB, ACK: defaultACK, AckTrigger: exactly(int64(max(d.AckGenTrigger, 0))), Window: exactly(d.Window), CSIG: d.CSIG, RTO: cmp.Or(c.RTO, rtoSpec),
		Balance: BalanceParams{d.Balance}}
	if c.Ordered {
		p.Transport = TransportRoCE
	}
	if c.AckEach {
		p.ACK = "packet"
	}
	not := func(off bool) *bool { on := !off; return &on }
	p.Signals = SignalParams{ECN: not(d.NoECN), RTT: not(d.NoRTT), Trim: not(d.NoTrim), OOO: not(d.NoInfer), DFC: not(d.NoDFC)}
	if c.Ordered {
		p.Transport = TransportRoCE
	}
	if cc := d.CC; cc != nil {
		p.NSCC = NSCCParams{NSCC: cc.NSCC, MSS: cc.Net.MSS, Deviations: cc.NSCC.Variant.String(), QuickAdapt: not(cc.NSCC.NoQuickAdapt)}
		p.RCCC = RCCCParams{RCCC: cc.RCCC, Slow: not(cc.RCCC.NoSlow), Oversubscription: &cc.RCCC.Oversubs}
		p.DCTCP, p.MPRDMA, p.Swift, p.DCQCN = DCTCPParams{cc.DCTCP, variantSpec}, MPRDMAParams{cc.MPRDMA}, SwiftParams{cc.Swift}, DCQCNParams{cc.DCQCN}
		if cc.DCTCP.Htsim {
			p.DCTCP.Variant = variantHtsim
		}
	}
	return p
}

// sections are those whose parameters count.
func (c *FEPConfig) sections(d *pds.Config) []string {
	var list []string
	switch c.CC {
	case "":
	case "uccl":
		list = append(list, "swift")
	case "eqds":
		list = append(list, "rccc")
	default:
		list = strings.Split(c.CC, "+") // each is named after its algorithm
	}
	switch name, _, _ := strings.Cut(d.LB, "-"); name {
	case "spray", "fixed", "oblivious":
	case "mixed":
		list = append(list, "bitmap")
	default:
		list = append(list, name)
	}
	return list
}

// readable is a value with at most six digits of a fraction's.
func readable(v any) string {
	if text, number := v.(literal); number {
		if x, err := strconv.ParseFloat(string(text), 64); err == nil {
			return strconv.FormatFloat(x, 'g', 6, 64)
		}
	}
	return valueText(v)
}
