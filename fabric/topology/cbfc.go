package topology

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/wire"
)

// CBFCParams describe credit-based flow control on a link, both directions alike. Some classes are lossless channels, all others are best effort.
type CBFCParams struct {
	Mode     string               // on or off; empty: on if anything below is said
	Channels classSet             // lossless classes; default that of data
	Method   string               // who divides the room: perVC or total
	Cell     *int                 // bytes for which a credit stands; default 128
	Overhead *int                 // bytes that are added to a frame first; default 0
	Limit    Size                 // room for each class; default auto: what comes in during a round trip
	Limits   [link.NumQueues]Size // the same for single classes
	Total    Size                 // room for all classes, where they share it; default auto: the sum of what each needs
	CCEvery  *time.Duration       // between CC_Updates; default 256 us
	CFMin    Size                 // least distance of CF_Updates, in line time; default 6400 B
	CFMax    Size                 // longest; default 256 KiB
	RaceDemo *bool                // CC_Updates overtake what LLR sends again
	Ends     *[]string            // who wants it where that is negotiated, names or patterns; nil: both ends
}

const (
	defaultCell = 128

	methodPerVC = "perVC"
	methodTotal = "total"
)

func (p *CBFCParams) fields() []field {
	return []field{
		{key: "channels", doc: "Classes that are lossless, by name or number; without it that of data.", to: classList{&p.Channels}},
		{key: "method", doc: "perVC: each channel has room of its own; total: all share it as they come, and one that stands still may starve the others.", def: methodPerVC,
			to: word[string]{&p.Method, []string{methodPerVC, methodTotal}}},
		{key: "cell", doc: "Bytes for which a credit stands, a power of two from 32 to 2048.", def: "128", to: number{&p.Cell, 32, 2048}},
		{key: "overhead", doc: "Bytes that are added to each frame before it is counted in credits, -16 to 127.", def: "0", to: number{&p.Overhead, -16, 127}},
		{key: "limit", doc: "Room that each port keeps for the frames of a channel, or auto: what comes in during a round trip and the latencies of both nodes. One for all channels, or by class.", def: wordAuto,
			to: classSizes{&p.Limit, &p.Limits}},
		{key: "total", doc: "Room that all channels of a port share with method total, or auto: what they would have together without.", def: wordAuto, to: amount{to: &p.Total, auto: true, bytesOnly: true}},
		{key: "ccEvery", doc: "Time between CC_Updates, 1us to 250ms.", def: "256us", to: span{to: &p.CCEvery, min: time.Microsecond, max: 250 * time.Millisecond}},
		{key: "cfMin", doc: "Least distance of CF_Updates in bytes of line time.", def: "6400B", to: amount{to: &p.CFMin, bytesOnly: true, min: 768, max: 131_072}},
		{key: "cfMax", doc: "Longest distance of CF_Updates while frames come in, 16KiB to 1MiB in steps of 16KiB.", def: "256KiB", to: amount{to: &p.CFMax, bytesOnly: true, min: 16 << 10, max: 1 << 20}},
		{key: "raceDemo", doc: "For teaching: CC_Updates overtake what LLR is about to send again, as before UE 1.0.3, so that more comes in than there is room for.", def: "false", to: truth{&p.RaceDemo}},
		endsField(&p.Ends),
	}
}

// classSizes is one size for all classes, or sizes by class.
type classSizes struct {
	one *Size
	by  *[link.NumQueues]Size
}

func (b classSizes) pointer() any         { return b.one }
func (b classSizes) item(to *Size) amount { return amount{to: to, auto: true, bytesOnly: true} }

func (b classSizes) decode(d *decoder, v value) {
	if !isMapping(v.node) {
		b.item(b.one).decode(d, v)
		return
	}
	entries, _ := d.mappingOf(v, true)
	for _, e := range entries {
		q, ok := queueNumber(e.key)
		switch {
		case !ok:
			d.form(e.at, "key", e.val.what, "not a class", didYouMean(e.key, queueWords()))
		case b.by[q] != (Size{}):
			d.meaning(e.at, "key", e.val.what, "class "+queueName(q)+" is given twice, by name and by number", "keep one of them")
		default:
			b.item(&b.by[q]).decode(d, e.val)
		}
	}
}

func (b classSizes) schema(defs *schemaDefs) schema {
	props := schema{}
	for _, key := range queueWords() {
		props[key] = b.item(b.one).schema(defs)
	}
	return schema{"anyOf": []schema{b.item(b.one).schema(defs), {"type": "object", "properties": props, "additionalProperties": false}}}
}

func (b classSizes) print() (any, bool) {
	fields := make([]field, len(b.by))
	for q := range fields {
		fields[q] = field{key: queueName(q), to: b.item(&b.by[q])}
	}
	if p := printFields(fields); len(p) > 0 {
		return p, true
	}
	return b.item(b.one).print()
}

// classList is a list of classes.
type classList struct{ to *classSet }

// classSet is a set of classes.
type classSet [link.NumQueues]bool

func (b classList) pointer() any { return b.to }

func (b classList) decode(d *decoder, v value) {
	items, ok := d.list(v, "["+queueNames[queueData]+", "+queueNames[queueControl]+"]")
	if !ok {
		return
	}
	var set classSet
	for _, item := range items {
		var q *int
		queueRef{&q}.decode(d, item)
		switch {
		case q == nil:
			return
		case set[*q]:
			d.meaning(item.at, item.what, queueName(*q), "listed twice", "list each class once")
			return
		}
		set[*q] = true
	}
	if len(items) == 0 {
		d.meaning(v.at, v.what, "[]", "no channel", "list classes, or write cbfc: off")
		return
	}
	*b.to = set
}

func (b classList) schema(defs *schemaDefs) schema {
	var q *int
	return schema{"type": "array", "items": queueRef{&q}.schema(defs), "minItems": 1, "uniqueItems": true}
}

func (b classList) print() (any, bool) {
	var list []any
	for _, q := range b.to.list() {
		if q < len(queueNames) {
			list = append(list, queueName(q))
		} else {
			list = append(list, q)
		}
	}
	return list, list != nil
}

// list has the classes in order.
func (s classSet) list() (list []int) {
	for q, in := range s {
		if in {
			list = append(list, q)
		}
	}
	return list
}

// over lays what p says over base.
func (p CBFCParams) over(base CBFCParams) CBFCParams {
	if p == (CBFCParams{}) {
		return base
	}
	base.Mode, base.Channels = cmp.Or(p.Mode, wordOn), cmp.Or(p.Channels, base.Channels)
	if p.Limit != (Size{}) {
		base.Limits = [link.NumQueues]Size{}
	}
	for q := range base.Limits {
		base.Limits[q] = cmp.Or(p.Limits[q], base.Limits[q])
	}
	base.Method, base.Total, base.RaceDemo = cmp.Or(p.Method, base.Method), cmp.Or(p.Total, base.Total), cmp.Or(p.RaceDemo, base.RaceDemo)
	base.Cell, base.Overhead, base.Limit = cmp.Or(p.Cell, base.Cell), cmp.Or(p.Overhead, base.Overhead), cmp.Or(p.Limit, base.Limit)
	base.Ends = cmp.Or(p.Ends, base.Ends)
	base.CCEvery, base.CFMin, base.CFMax = cmp.Or(p.CCEvery, base.CCEvery), cmp.Or(p.CFMin, base.CFMin), cmp.Or(p.CFMax, base.CFMax)
	return base
}

// planCBFC gives links and their ports their credits, once switches have their classes. A plain host knows nothing of it.
func (d *draft) planCBFC(p *Plan) {
	type mistake struct {
		at  position
		why string
	}
	var order []mistake
	wrong := map[mistake][]string{} // links
	for i := range p.Links {
		lp, l := d.links[i].effective(), &p.Links[i]
		a, b := &p.Nodes[l.A.Node], &p.Nodes[l.B.Node]
		if lp.CBFC.Mode != wordOn || a.Kind == KindHost || b.Kind == KindHost {
			continue
		}
		s, err := lp.CBFC.plan(p, l)
		if err != nil {
			m := mistake{cmp.Or(d.links[i].cbfcAt, d.links[i].at), err.Error()}
			if wrong[m] == nil {
				order = append(order, m)
			}
			wrong[m] = append(wrong[m], l.Name)
			continue
		}
		l.CBFC, a.Ports[l.A.Port].CBFC, b.Ports[l.B.Port].CBFC = s, s, s
	}
	for _, m := range order {
		value := wrong[m][0]
		if more := len(wrong[m]) - 1; more > 0 {
			value = fmt.Sprintf("%s and %d more", value, more)
		}
		d.problem(m.at, "cbfc", value, m.why, "change the parameters of cbfc, or the classes of the switches")
	}
}

// whereCBFC is where parameters of links speak of credits, a word or a section; the zero position where they do not.
func (s *Spec) whereCBFC(l *LinkParams) position {
	return cmp.Or(s.at(&l.CBFC), s.at(&l.CBFC.Mode))
}

// plan works out what a link has: the DSCPs of each lossless class, whose channel has the class's number, and the room for it.
func (p *CBFCParams) plan(plan *Plan, l *Link) (*cbfc.Setup, error) {
	classes, channels, err := plan.lossless(l, p.Channels)
	if err != nil {
		return nil, err
	}
	s := &cbfc.Setup{Config: cbfc.Config{Rate: l.Rate, CFMin: int(p.CFMin.Bytes), CFMax: int(p.CFMax.Bytes), RaceDemo: p.RaceDemo != nil && *p.RaceDemo}}
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
	if bits.OnesCount(uint(cell)) != 1 {
		return nil, fmt.Errorf("cell of %d bytes: not a power of two", cell)
	}
	f := &s.Profile
	*f = cbfc.Profile{CreditSize: uint16(cell), Method: wire.CBFCPerVC}
	if p.Overhead != nil {
		f.PktOvhd = int8(*p.Overhead)
	}
	if err := p.limits(plan, l, s, channels); err != nil {
		return nil, err
	}
	f.VCs = selectors(&classes, channels, f.VCs)
	return s, cbfc.CheckProfile(f, l.MTU+longestHeader)
}

// limits gives the channels of a profile their room, one entry each.
func (p *CBFCParams) limits(plan *Plan, l *Link, s *cbfc.Setup, channels []int) error {
	f := &s.Profile
	sum := uint32(0)
	for q := range p.Limits {
		if p.Limits[q] != (Size{}) && !slices.Contains(channels, q) {
			return fmt.Errorf("limit for class %s, which is none of the channels", queueName(q))
		}
	}
	for _, q := range channels {
		f.Lossless |= 1 << q
		limit := p.limit(plan, l, s, cmp.Or(p.Limits[q], p.Limit))
		sum += limit
		f.VCs = append(f.VCs, wire.CBFCVC{Index: uint8(q), Limit: limit})
	}
	switch {
	case p.Method != methodTotal && p.Total != (Size{}):
		return fmt.Errorf("total is for method: total; with perVC each channel has a limit")
	case p.Method != methodTotal:
		return nil
	case p.Limit.Bytes > 0 || p.Limits != [link.NumQueues]Size{}:
		return fmt.Errorf("limit is for method: perVC; with total the channels share one room")
	}
	f.Method, f.Total = wire.CBFCTotal, min(sum, cbfc.MaxTotal)
	if p.Total.Bytes > 0 {
		f.Total = uint32(min((p.Total.Bytes+int64(f.CreditSize)-1)/int64(f.CreditSize), cbfc.MaxTotal))
	}
	for i := range f.VCs {
		f.VCs[i].Limit = 0
	}
	return nil
}

// selectors gives each channel its DSCPs, blocks of them by value and mask.
func selectors(classes *[numDSCP]uint8, channels []int, limits []wire.CBFCVC) (list []wire.CBFCVC) {
	for i, q := range channels {
		for at := 0; at < numDSCP; {
			n := 1
			for at%(2*n) == 0 && all(classes[at:at+2*n], uint8(q)) && 2*n < numDSCP {
				n *= 2
			}
			if all(classes[at:at+n], uint8(q)) {
				list = append(list, wire.CBFCVC{Index: uint8(q), Limit: limits[i].Limit, Map: wire.VCMapDSCP, Value: uint8(at), Mask: uint8(numDSCP - n)})
			}
			at += n
		}
	}
	return list
}

func all(classes []uint8, q uint8) bool {
	return !slices.ContainsFunc(classes, func(c uint8) bool { return c != q })
}

// longestHeader is the Ethernet header and the longest tag.
const longestHeader = wire.EthLen + wire.CSIGWideLen

// Classes gives the class of each DSCP at a node: what its settings say at a switch, else what the section dscp does.
func (p *Plan) Classes(node int) [numDSCP]uint8 {
	if sw := p.Nodes[node].Switch; sw != nil {
		return sw.Classes
	}
	return p.DSCP.classes()
}

// lossless returns the classes of DSCPs on a link and those that are to be lossless, ascending; none said: that of data. Both ends must be of one mind
// about them.
func (p *Plan) lossless(l *Link, said classSet) (classes [numDSCP]uint8, channels []int, err error) {
	classes = p.Classes(l.A.Node)
	a, b := p.Nodes[l.A.Node].Switch, p.Nodes[l.B.Node].Switch
	if a == nil {
		classes = p.Classes(l.B.Node)
	}
	data := p.DSCP.Data % numDSCP
	if channels = said.list(); channels == nil {
		channels = []int{int(classes[data])}
	}
	if a != nil && b != nil {
		if said == (classSet{}) && a.Classes[data] != b.Classes[data] {
			return classes, nil, fmt.Errorf("the switches at its ends do not have the same class of data: %s and %s", queueName(int(a.Classes[data])), queueName(int(b.Classes[data])))
		}
		for d := range classes {
			x, y := int(a.Classes[d]), int(b.Classes[d])
			if x != y && (slices.Contains(channels, x) || slices.Contains(channels, y)) {
				return classes, nil, fmt.Errorf("the switches at its ends do not have the same DSCPs in the lossless classes: DSCP %d is %s at %s and %s at %s", d,
					queueName(x), p.Nodes[l.A.Node].Name, queueName(y), p.Nodes[l.B.Node].Name)
			}
		}
	}
	for _, q := range channels {
		if !slices.Contains(classes[:], uint8(q)) {
			return classes, nil, fmt.Errorf("channel %s: no DSCP is of that class here", queueName(q))
		}
	}
	return classes, channels, nil
}

// limit is how many credits a sender needs, lest it wait on an idle link: for what it sends until it hears of the first frame. That has to come
// through both lines and both nodes, to wait for a frame before it at each, and for the CF_Update to be due.
func (p *CBFCParams) limit(plan *Plan, l *Link, s *cbfc.Setup, said Size) uint32 {
	if said.Bytes > 0 {
		return uint32(min((said.Bytes+int64(s.Profile.CreditSize)-1)/int64(s.Profile.CreditSize), cbfc.MaxLimit))
	}
	const framesAround = 4
	line := int64(wire.LineBytes(l.MTU + ethernetHeader))
	under := mulDiv(l.Rate, int64(2*l.Delay+plan.Nodes[l.A.Node].Latency+plan.Nodes[l.B.Node].Latency), 8*int64(time.Second))
	frames := (under+int64(s.CFMin)+line-1)/line + framesAround
	cost := cbfc.CellOf(&s.Profile).Credits(l.MTU + longestHeader)
	return uint32(min(frames*int64(cost), cbfc.MaxLimit))
}
