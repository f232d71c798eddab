package topology

import (
	"cmp"
	"strings"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
)

// The sections of an end point's congestion management as a file writes them. What is not said is zero; a zero that is said, where
// it means anything, is -1, as packages cms and lb want it.

// NSCCParams are those of cc nscc and nscc+rccc.
type NSCCParams struct {
	cms.NSCC
	MSS        int
	Deviations string // the variant in words
	QuickAdapt *bool
}

// RCCCParams are those of cc rccc, nscc+rccc and eqds.
type RCCCParams struct {
	cms.RCCC
	Slow             *bool
	Oversubscription *bool
}

// DCTCPParams are those of cc dctcp.
type DCTCPParams struct {
	cms.DCTCP
	Variant string
}

// MPRDMAParams are those of cc mprdma.
type MPRDMAParams struct{ cms.MPRDMA }

// SwiftParams are those of cc swift and uccl.
type SwiftParams struct{ cms.Swift }

// DCQCNParams are those of cc dcqcn.
type DCQCNParams struct{ cms.DCQCN }

// SignalParams say which signals congestion management takes notice of.
type SignalParams struct{ ECN, RTT, Trim, OOO, DFC *bool }

// BalanceParams are those of load balancers, the keys of several sections.
type BalanceParams struct{ lb.Params }

// Words of FEPParams.CC, RTO, PDC and of sections.
const (
	ccFixed      = "fixed"
	rtoSpec      = "spec"
	rtoHtsim     = "htsim"
	pdcShared    = "shared"
	pdcMessage   = "message"
	variantSpec  = "spec"
	variantHtsim = "htsim"
)

// manage lays what p says of congestion management over c.
func (p *FEPParams) manage(c *FEPConfig, bdp int64) {
	p.transport(c)
	switch {
	case p.CC != "":
		c.CC = strings.TrimPrefix(p.CC, ccFixed)
	case p.Window != (Size{}) && !c.Ordered:
		c.CC = "" // who gives the window a size wants it to keep that
	}
	c.LB = cmp.Or(p.LB, c.LB)
	if p.ACK != "" {
		c.AckEach = p.ACK != defaultACK
	}
	if p.AckTrigger != (Size{}) {
		c.AckTrigger = p.AckTrigger.Bytes
	}
	if p.Window != (Size{}) {
		c.Window = p.Window.bytes(bdp, 1)
	}
	c.CSIG = cmp.Or(p.CSIG, c.CSIG)
	if p.RTO != "" {
		c.RTO = strings.TrimPrefix(p.RTO, rtoSpec)
	}
	if p.PDC != "" {
		c.OwnPDC = p.PDC == pdcMessage
	}
	c.Balance = laid(p.Balance.Params, c.Balance)
	putNot(&c.NoOOO, p.Signals.OOO)
	putNot(&c.NoDFC, p.Signals.DFC)
	p.control(&c.Control)
}

// control lays what p says of congestion control over c.
func (p *FEPParams) control(c *cms.Config) {
	putNot(&c.NoECN, p.Signals.ECN)
	putNot(&c.NoRTT, p.Signals.RTT)
	putNot(&c.NoTrim, p.Signals.Trim)
	c.Net.MSS = cmp.Or(p.NSCC.MSS, c.Net.MSS)
	c.NSCC = laid(p.NSCC.NSCC, c.NSCC)
	if v := p.NSCC.Deviations; v != "" {
		c.NSCC.Variant, _ = cms.ParseVariant(strings.TrimPrefix(v, variantSpec)) // the decoder has read it
	}
	putNot(&c.NSCC.NoQuickAdapt, p.NSCC.QuickAdapt)
	c.RCCC = laid(p.RCCC.RCCC, c.RCCC)
	putNot(&c.RCCC.NoSlow, p.RCCC.Slow)
	put(&c.RCCC.Oversubs, p.RCCC.Oversubscription)
	c.DCTCP = laid(p.DCTCP.DCTCP, c.DCTCP)
	if v := p.DCTCP.Variant; v != "" {
		c.DCTCP.Htsim = v == variantHtsim
	}
	c.MPRDMA = laid(p.MPRDMA.MPRDMA, c.MPRDMA)
	c.Swift = laid(p.Swift.Swift, c.Swift)
	c.Swift.Hops = max(c.Swift.Hops, 0) // there 0 is no default
	c.DCQCN = laid(p.DCQCN.DCQCN, c.DCQCN)
}

// putNot sets to to the opposite of what is said.
func putNot(to *bool, said *bool) {
	if said != nil {
		*to = !*said
	}
}
