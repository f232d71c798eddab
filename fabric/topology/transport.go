package topology

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/fep/pds"
)

// Around is what an end point knows of its fabric: all defaults of congestion management are derived from it.
type Around struct {
	Rate       int64         `json:"rateBps"`   // of its link
	BaseRTT    time.Duration `json:"baseRttNs"` // of the longest idle path
	BDP        int64         `json:"bdpBytes"`  // the plane BDP
	Queue      int64         `json:"queueBytes"`
	Trims      bool          `json:"trims,omitempty"`
	PayloadMTU int           `json:"payloadMtu"`
}

// Around tells an end point of its fabric. Queue is what a data queue of the switch that it hangs on holds, and whether that one
// trims goes for all.
func (p *Plan) Around(node int) Around {
	port := &p.Nodes[node].Ports[0]
	a := Around{Rate: port.Rate, BaseRTT: p.BaseRTT, BDP: p.BDP, PayloadMTU: p.PayloadMTU}
	peer := &p.Nodes[port.Peer]
	if peer.Switch != nil {
		a.Trims = peer.Switch.Trim.Enabled
		a.Queue = peer.Ports[port.PeerIdx].Queue
	}
	a.Queue = cmp.Or(a.Queue, p.BDP*autoBuffer) // a lossless one has no limit, and an end point no queue
	return a
}

// Delivery is packet delivery's configuration as far as congestion management goes, its defaults not filled in.
func (c *FEPConfig) Delivery(a Around) (d pds.Config, err error) {
	d = pds.Config{PayloadMTU: a.PayloadMTU, Window: c.Window, LB: c.LB, Balance: c.Balance, AckGenTrigger: int(c.AckTrigger), NoInfer: c.NoOOO || c.Ordered, CSIG: c.CSIG, OwnPDC: c.OwnPDC}
	d.Balance.RTT = a.BaseRTT
	d.NoDFC = c.NoDFC
	d.NoECN, d.NoRTT, d.NoTrim = c.Control.NoECN, c.Control.NoRTT, c.Control.NoTrim
	if c.AckEach {
		d.AckGenTrigger = -1
	}
	if c.RTO == rtoHtsim {
		n := cms.Network{Rate: a.Rate}
		d.RTOInit, d.RTOConstant, d.MaxRTORetx, d.MaxNackRetx = n.HtsimRTO(a.Queue), true, pds.InfiniteRTO, pds.InfiniteNack
	}
	if c.CC == "" {
		return d, nil
	}
	cc := c.Control
	if cc.Algorithm, err = cms.ParseAlgorithm(c.CC); err != nil {
		return d, err
	}
	cc.Net.Rate, cc.Net.BaseRTT, cc.Net.Trimming = a.Rate, a.BaseRTT, a.Trims
	d.CC = &cc
	return d, nil
}

// Resolved is Delivery with all defaults filled in: what holds at the end point. It fails on parameters that do not go together, with
// an error that names the key.
func (c *FEPConfig) Resolved(a Around) (pds.Config, error) {
	d, err := c.Delivery(a)
	if err == nil {
		err = d.Resolve()
	}
	return d, err
}

// wrong finds the first parameter that does not go with the others: its key, its value, and why; why is empty where there is none.
func (c *FEPConfig) wrong(a Around) (key, value, why string) {
	if c.Window < int64(a.PayloadMTU) {
		return "window", fmt.Sprintf("%dB", c.Window), fmt.Sprintf("does not hold one packet of %d payload bytes; write auto, or at least %dB", a.PayloadMTU, a.PayloadMTU)
	}
	all := *c // parameters have to make sense though nothing uses them yet
	all.CC = cmp.Or(c.CC, cms.AlgNSCC.String())
	if c.LB == pds.LBSpray || c.LB == pds.LBFixed {
		all.LB = string(lb.REPS)
	}
	_, err := all.Resolved(a)
	if err == nil {
		return "", "", ""
	}
	for {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			err = many.Unwrap()[0]
			continue
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	name, why, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return "cc", c.CC, err.Error()
	}
	at := strings.LastIndexByte(name, ' ')
	name, value = name[:max(at, 0)], name[at+1:]
	if seconds := name != "" && strings.ContainsAny(why, "0123456789"); seconds && timeKey(name) {
		why += " seconds"
	}
	return keyOf(name), value, why
}

// prose are the words that packages pds, lb and cms have for parameters whose names do not tell.
var prose = map[string]string{
	"EVs": "evs", "t_reroute": "ecmp.reroute", "flowlet gap": "flowlet.gap", "flowlet hold": "flowlet.hold", "PLB rounds": "plb.rounds", "PLB idle rounds": "plb.idleRounds",
	"first window": "reps.firstWindow", "Net.MSS": "nscc.mss", "NSCC.AckTrigger": "ackTrigger", "RTO": "rto", "load balancer": "lb",
}

// keyOf finds the key of a parameter.
func keyOf(name string) string {
	if key, ok := prose[name]; ok {
		return key
	}
	key := "cc"
	eachLeaf(new(FEPParams).managed(), "", func(k string, _ field) {
		if strings.EqualFold(k, name) {
			key = k
		}
	})
	return key
}

// timeKey says whether package cms speaks of the parameter in seconds.
func timeKey(name string) (is bool) {
	if f, ok := find(new(FEPParams).managed(), keyOf(name)); ok {
		g, quantity := f.to.(gauge[time.Duration])
		is = quantity && strings.Contains(name, ".") && g.measure.example == durations.example
	}
	return is
}
