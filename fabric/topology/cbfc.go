package topology

import (
	"cmp"
	"fmt"
	"math/bits"
	"time"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/wire"
)

// CBFCParams describe credit-based flow control on a link, both directions alike. The class of data is lossless, all others are best effort.
type CBFCParams struct {
	Mode     string         // on or off; empty: on if anything below is said
	Cell     *int           // bytes for which a credit stands; default 128
	Overhead *int           // bytes that are added to a frame first; default 0
	Limit    Size           // room for the class of data; default auto: what comes in during a round trip
	CCEvery  *time.Duration // between CC_Updates; default 256 us
	CFMin    Size           // least distance of CF_Updates, in line time; default 6400 B
	CFMax    Size           // longest; default 256 KiB
	Ends     *[]string      // who wants it where that is negotiated, names or patterns; nil: both ends
}

const defaultCell = 128

func (p *CBFCParams) fields() []field {
	return []field{
		{key: "cell", doc: "Bytes for which a credit stands, a power of two from 32 to 2048.", def: "128", to: number{&p.Cell, 32, 2048}},
		{key: "overhead", doc: "Bytes that are added to each frame before it is counted in credits, -16 to 127.", def: "0", to: number{&p.Overhead, -16, 127}},
		{key: "limit", doc: "Room that each port keeps for the data of its link, or auto: what comes in during a round trip and the latencies of both nodes.", def: wordAuto,
			to: amount{to: &p.Limit, auto: true, bytesOnly: true}},
		{key: "ccEvery", doc: "Time between CC_Updates, 1us to 250ms.", def: "256us", to: span{to: &p.CCEvery, min: time.Microsecond, max: 250 * time.Millisecond}},
		{key: "cfMin", doc: "Least distance of CF_Updates in bytes of line time.", def: "6400B", to: amount{to: &p.CFMin, bytesOnly: true, min: 768, max: 131_072}},
		{key: "cfMax", doc: "Longest distance of CF_Updates while frames come in, 16KiB to 1MiB in steps of 16KiB.", def: "256KiB", to: amount{to: &p.CFMax, bytesOnly: true, min: 16 << 10, max: 1 << 20}},
		endsField(&p.Ends),
	}
}

// over lays what p says over base.
func (p CBFCParams) over(base CBFCParams) CBFCParams {
	if p == (CBFCParams{}) {
		return base
	}
	base.Mode = cmp.Or(p.Mode, wordOn)
	base.Cell, base.Overhead, base.Limit = cmp.Or(p.Cell, base.Cell), cmp.Or(p.Overhead, base.Overhead), cmp.Or(p.Limit, base.Limit)
	base.Ends = cmp.Or(p.Ends, base.Ends)
	base.CCEvery, base.CFMin, base.CFMax = cmp.Or(p.CCEvery, base.CCEvery), cmp.Or(p.CFMin, base.CFMin), cmp.Or(p.CFMax, base.CFMax)
	return base
}

// planCBFC gives links and their ports their credits, once switches have their classes. A plain host knows nothing of it.
func (d *draft) planCBFC(p *Plan) {
	for i := range p.Links {
		lp, l := d.links[i].effective(), &p.Links[i]
		a, b := &p.Nodes[l.A.Node], &p.Nodes[l.B.Node]
		if lp.CBFC.Mode != wordOn || a.Kind == KindHost || b.Kind == KindHost {
			continue
		}
		s, err := lp.CBFC.plan(p, l)
		if err != nil {
			d.problem(d.links[i].at, "cbfc", l.Name, err.Error(), "change the parameters of cbfc, or the classes of the switches")
			continue
		}
		l.CBFC, a.Ports[l.A.Port].CBFC, b.Ports[l.B.Port].CBFC = s, s, s
	}
}

// plan works out what a link has: the DSCPs of the class of data, whose channel has the class's number, and the room for it.
func (p *CBFCParams) plan(plan *Plan, l *Link) (*cbfc.Setup, error) {
	classes, q, err := plan.dataClass(l)
	if err != nil {
		return nil, err
	}
	s := &cbfc.Setup{Config: cbfc.Config{Rate: l.Rate, CFMin: int(p.CFMin.Bytes), CFMax: int(p.CFMax.Bytes)}}
	if p.CCEvery != nil {
		s.CCEvery = *p.CCEvery
	}
	s.Fill()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	cell := defaultCell
	if p.Cell != nil {
		cell = *p.Cell
	}
	s.Profile = cbfc.Profile{CreditSize: uint16(cell), Method: wire.CBFCPerVC, Lossless: 1 << q}
	if p.Overhead != nil {
		s.Profile.PktOvhd = int8(*p.Overhead)
	}
	if bits.OnesCount(uint(cell)) != 1 {
		return nil, fmt.Errorf("cell of %d bytes: not a power of two", cell)
	}
	limit := p.limit(plan, l, s)
	for dscp, class := range classes {
		if class == q {
			s.Profile.VCs = append(s.Profile.VCs, wire.CBFCVC{Index: q, Limit: limit, Map: wire.VCMapDSCP, Value: uint8(dscp), Mask: 0x3F})
		}
	}
	return s, cbfc.CheckProfile(&s.Profile, l.MTU+longestHeader)
}

// longestHeader is the Ethernet header and the longest tag.
const longestHeader = wire.EthLen + wire.CSIGWideLen

// dataClass returns the classes of DSCPs on a link and the class of data, of which both ends must be of one mind.
func (p *Plan) dataClass(l *Link) (classes [numDSCP]uint8, q uint8, err error) {
	classes = p.DSCP.classes()
	data := p.DSCP.Data % numDSCP
	known := false
	for _, e := range []End{l.A, l.B} {
		sw := p.Nodes[e.Node].Switch
		if sw == nil {
			continue
		}
		for d := range classes {
			if is := sw.Classes[d] == sw.Classes[data]; known && (sw.Classes[data] != classes[data] || is != (classes[d] == classes[data])) {
				return classes, 0, fmt.Errorf("the switches at its ends do not have the same DSCPs in the class of data")
			}
		}
		classes, known = sw.Classes, true
	}
	return classes, classes[data], nil
}

// limit is how many credits a sender needs, lest it wait on an idle link: for what it sends until it hears of the first frame. That has to come
// through both lines and both nodes, to wait for a frame before it at each, and for the CF_Update to be due.
func (p *CBFCParams) limit(plan *Plan, l *Link, s *cbfc.Setup) uint32 {
	if p.Limit.Bytes > 0 {
		return uint32(min((p.Limit.Bytes+int64(s.Profile.CreditSize)-1)/int64(s.Profile.CreditSize), cbfc.MaxLimit))
	}
	const framesAround = 4
	line := int64(wire.LineBytes(l.MTU + ethernetHeader))
	under := mulDiv(l.Rate, int64(2*l.Delay+plan.Nodes[l.A.Node].Latency+plan.Nodes[l.B.Node].Latency), 8*int64(time.Second))
	frames := (under+int64(s.CFMin)+line-1)/line + framesAround
	cost := cbfc.CellOf(&s.Profile).Credits(l.MTU + longestHeader)
	return uint32(min(frames*int64(cost), cbfc.MaxLimit))
}
