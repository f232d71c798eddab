package faults

import (
	"fmt"
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// What can be done to a link.
const (
	Fail      = "fail"
	Restore   = "restore"   // up again and free of every impairment
	Blackhole = "blackhole" // carrier up, nothing arrives
	Change    = "set"       // what Set says
	Flap      = "flap"      // Fail and Restore by turns
)

// Both is Fault.From of a fault of both directions.
const Both = -1

// Times is when a flapping link is down.
type Times struct {
	DownNs   int64 `json:"downNs"`   // how long it is down …
	PeriodNs int64 `json:"periodNs"` // … once in this time …
	Count    int   `json:"count"`    // … and how often
}

// Bounds of flapping and of all that is scheduled at once.
const (
	MaxFlaps  = 1000
	MaxFaults = 20_000 // flaps counted as the changes that they are
)

// Fault is one thing done to a link.
type Fault struct {
	At   vt.Time `json:"at"`
	Link int     `json:"link"`
	From int     `json:"from"` // the node that sends in the only direction, or Both
	Op   string  `json:"op"`
	Set  Set     `json:"set,omitzero"`  // for Change
	Flap Times   `json:"flap,omitzero"` // for Flap
}

// Text says what is done, as one would write it: "fail", "set loss=0.1%".
func (f *Fault) Text() string {
	switch f.Op {
	case Change:
		return "set " + f.Set.Text()
	case Flap:
		return fmt.Sprintf("flap %s down every %s, %d times", span1(time.Duration(f.Flap.DownNs)), span1(time.Duration(f.Flap.PeriodNs)), f.Flap.Count)
	}
	return f.Op
}

// Check says whether a fault is one of the plan's; its time is not looked at. Errors are *Error.
func (f *Fault) Check(plan *topology.Plan) error {
	if f.Link < 0 || f.Link >= len(plan.Links) {
		return problem("", "link %d: there are %d", f.Link, len(plan.Links))
	}
	l := &plan.Links[f.Link]
	if f.From != Both && f.From != l.A.Node && f.From != l.B.Node {
		return problem("", "from: link %s joins %s and %s", l.Name, plan.Nodes[l.A.Node].Name, plan.Nodes[l.B.Node].Name)
	}
	switch f.Op {
	case Fail, Restore, Blackhole:
		return nil
	case Change:
		if plan.Miswired(f.Link) && (f.Set.LLR != nil || f.Set.CBFC != nil) {
			return problem("say it in the topology file, for both links that are swapped", "link %s is miswired: llr and cbfc belong to a cable, and its ends are at two", l.Name)
		}
		if f.Set.LLR != nil {
			if err := f.checkLLR(plan, l); err != nil {
				return err
			}
		}
		if f.Set.ReInit != nil {
			if err := f.checkReInit(plan, l); err != nil {
				return err
			}
		}
		if f.Set.CBFC != nil || f.Set.Limit != nil {
			if err := f.checkCBFC(l); err != nil {
				return err
			}
		}
		if err := f.Set.checkTrailer(plan, l); err != nil {
			return err
		}
		return f.Set.check(l.Name, l.Rate)
	case Flap:
		return f.Flap.Check()
	}
	return problem("use fail, restore, blackhole, set or flap", "link %q: not known", f.Op)
}

// checkLLR wants what link layer retry needs of a link.
func (f *Fault) checkLLR(plan *topology.Plan, l *topology.Link) error {
	if f.From != Both && !l.Negotiated {
		return problem("leave --from out, or say lldp: on in the topology", "llr: of both directions of link %s at once, which is not negotiated", l.Name)
	}
	for _, e := range []topology.End{l.A, l.B} {
		if n := &plan.Nodes[e.Node]; n.Kind == topology.KindHost && *f.Set.LLR {
			return problem("", "llr: %s at link %s is a plain host and knows nothing of it", n.Name, l.Name)
		}
	}
	return nil
}

// checkReInit wants what a new handshake needs of a link, but that there is link layer retry: that is a question of time.
func (f *Fault) checkReInit(plan *topology.Plan, l *topology.Link) error {
	if !*f.Set.ReInit || f.Set.LLR != nil {
		return problem("give one of llr=on, llr=off, llr=reinit", "llr of link %s: a new handshake, and something else at once", l.Name)
	}
	for _, e := range []topology.End{l.A, l.B} {
		if n := &plan.Nodes[e.Node]; n.Kind == topology.KindHost {
			return problem("", "llr: %s at link %s is a plain host and knows nothing of it", n.Name, l.Name)
		}
	}
	return nil
}

// checkCBFC wants what credits need of a link.
func (f *Fault) checkCBFC(l *topology.Link) error {
	switch {
	case f.From != Both && !l.Negotiated:
		return problem("leave --from out, or say lldp: on in the topology", "cbfc: of both directions of link %s at once, which is not negotiated", l.Name)
	case (f.Set.Limit != nil || *f.Set.CBFC) && l.CBFC == nil:
		return problem("say link: {cbfc: on} in the topology", "cbfc: the topology has no credits for link %s", l.Name)
	case f.Set.Limit != nil && !l.Negotiated:
		return problem("say link: {lldp: on, cbfc: on} in the topology", "cbfc: a limit is told by LLDP, and link %s negotiates nothing", l.Name)
	case f.Set.Limit != nil:
		if err := l.CheckAnnounced(*f.Set.Limit); *f.Set.Limit <= 0 || err != nil {
			return problem("give room for some frames", "cbfc: limit of %d bytes: %v", *f.Set.Limit, err)
		}
	}
	return nil
}

// Check says whether a link can flap like that.
func (t *Times) Check() error {
	switch {
	case t.Count < 1 || t.Count > MaxFlaps:
		return problem(fmt.Sprintf("give 1 to %d", MaxFlaps), "flap count (%d): out of range", t.Count)
	case t.DownNs < 1:
		return problem("write it like 20us", "flap down (%d ns): must be above 0", t.DownNs)
	case t.PeriodNs <= t.DownNs:
		return problem("give a longer period", "flap period (%s): not longer than the %s for which the link is down", span1(time.Duration(t.PeriodNs)), span1(time.Duration(t.DownNs)))
	case t.PeriodNs > int64(time.Hour):
		return problem("give at most 1h", "flap period (%s): too long", span1(time.Duration(t.PeriodNs)))
	}
	return nil
}

// Expand gives the single changes that a fault is made of.
func (f *Fault) Expand() []Fault {
	if f.Op != Flap {
		return []Fault{*f}
	}
	var list []Fault
	for i := range f.Flap.Count {
		one := *f
		one.Flap = Times{}
		one.Op, one.At = Fail, f.At+vt.Time(int64(i)*f.Flap.PeriodNs)
		list = append(list, one)
		one.Op, one.At = Restore, one.At+vt.Time(f.Flap.DownNs)
		list = append(list, one)
	}
	return list
}

// Last is when the last of the changes takes place that a fault is made of.
func (f *Fault) Last() vt.Time {
	if f.Op != Flap {
		return f.At
	}
	return f.At + vt.Time(int64(f.Flap.Count-1)*f.Flap.PeriodNs+f.Flap.DownNs)
}

// routing says whether the fault may take a link down or up.
func (f *Fault) routing() bool {
	return f.Op == Fail || f.Op == Restore || f.Op == Change && f.Set.Down != nil || f.Op == undone
}

// undone is the operation that is left of a fault which was taken back.
const undone = ""

// over gives the impairments that follow from imp.
func (f *Fault) over(imp link.Impair, rate int64) link.Impair {
	switch f.Op {
	case Fail:
		imp.Down = true
	case Restore:
		return link.Impair{}
	case Blackhole:
		imp.Blackhole = true
	case Change:
		return f.Set.over(imp, rate)
	}
	return imp
}
