package topology

import (
	"fmt"
	"reflect"
)

// Swap names two links of a topology whose cables are plugged in wrongly: each goes to the far end of the other.
type Swap [2]string

const swapExample = "[[leaf0-spine0, leaf1-spine1]]"

// swapList is the miswired section.
type swapList struct{ to *[]*Swap }

func (b swapList) pointer() any { return b.to }

func (b swapList) decode(d *decoder, v value) {
	items, _ := d.list(v, swapExample)
	for _, item := range items {
		pair, ok := d.list(item, swapExample)
		if !ok {
			continue
		}
		if len(pair) != 2 {
			d.form(item.at, item.what, "", fmt.Sprintf("%d links; the far ends of two are swapped", len(pair)), "write it like "+swapExample)
			continue
		}
		s := new(Swap)
		for i := range pair {
			s[i], ok = d.text(pair[i], "leaf0-spine0")
			d.where[&s[i]] = pair[i].at
			if !ok {
				return
			}
		}
		*b.to = append(*b.to, s)
	}
}

func (b swapList) schema(*schemaDefs) schema {
	return schema{"type": "array", "items": schema{"type": "array", "minItems": 2, "maxItems": 2, "items": schema{"type": "string"}}}
}

func (b swapList) print() (any, bool) {
	var list []any
	for _, s := range *b.to {
		list = append(list, s[:])
	}
	return list, len(list) > 0
}

// Far is where the port's cable ends: what the port sends arrives there. It is the end that the topology says, Peer, unless the
// cable is miswired.
func (p *Port) Far() End {
	if p.Miswired != nil {
		return *p.Miswired
	}
	return End{p.Peer, p.PeerIdx}
}

// Miswired says whether the cables at a link's ends are not the link's.
func (p *Plan) Miswired(link int) bool {
	a := p.Links[link].A
	return p.Nodes[a.Node].Ports[a.Port].Miswired != nil
}

// Ends lists the ends that a link has to do with: its own, and those where the cables of its ports really go.
func (p *Plan) Ends(link int) []End {
	l := &p.Links[link]
	if !p.Miswired(link) {
		return []End{l.A, l.B}
	}
	return []End{l.A, l.B, p.Nodes[l.A.Node].Ports[l.A.Port].Far(), p.Nodes[l.B.Node].Ports[l.B.Port].Far()}
}

// planMiswired plugs the cables together as the file says. All else of the plan stays as if they were right.
func (d *draft) planMiswired(p *Plan) {
	used := map[int]bool{}
	for _, s := range d.spec.Miswired {
		var ids [2]int
		ok := true
		for i, name := range s {
			id, _, err := p.FindLink(name)
			switch {
			case err != nil:
				d.problem(d.spec.at(&s[i]), "miswired", name, "no such link", didYouMean(name, p.linkNames()))
			case used[id]:
				d.problem(d.spec.at(&s[i]), "miswired", name, "named twice", "a link has one cable: swap it once")
			}
			ok = ok && err == nil && !used[id]
			ids[i], used[id] = id, true
		}
		if !ok {
			continue
		}
		x, y := &p.Links[ids[0]], &p.Links[ids[1]]
		if why, hint := p.cannotSwap(x, y); why != "" {
			d.problem(d.spec.at(&s[0]), "miswired", x.Name+", "+y.Name, why, hint)
			continue
		}
		p.plug(x.A, y.B)
		p.plug(y.A, x.B)
	}
}

// cannotSwap says why the far ends of two links cannot be swapped; empty: they can. What is alike at both ends of a cable must stay so.
func (p *Plan) cannotSwap(x, y *Link) (why, hint string) {
	for _, e := range []End{x.A, x.B, y.A, y.B} {
		if n := &p.Nodes[e.Node]; n.Kind == KindHost {
			return fmt.Sprintf("%s is a plain host, which speaks no LLDP", n.Name), "swap cables between switches and fabric end points"
		}
	}
	if x.A.Node == y.B.Node || y.A.Node == x.B.Node {
		return "a cable would join two ports of one node", "name links whose near ends, or far ends, are alike: two uplinks, say"
	}
	u, v := *x, *y
	u.ID, u.Name, u.A, u.B = v.ID, v.Name, v.A, v.B
	if !reflect.DeepEqual(u, v) {
		return "the links are not alike in rate, delay, mtu, lldp, ber, llr or cbfc", "a cable has one rate and one delay: give both links the same"
	}
	return "", ""
}

func (p *Plan) plug(a, b End) {
	p.Nodes[a.Node].Ports[a.Port].Miswired, p.Nodes[b.Node].Ports[b.Port].Miswired = &b, &a
}

func (p *Plan) linkNames() []string {
	names := make([]string, len(p.Links))
	for i := range p.Links {
		names[i] = p.Links[i].Name
	}
	return names
}
