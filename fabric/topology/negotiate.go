package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uetlab/uetlab/internal/link/cbfc"
	"github.com/uetlab/uetlab/wire"
)

// Values of a link's lldp.
const (
	lldpOn     = "on"     // LLR and CBFC are negotiated
	lldpStatic = "static" // they are configured; agents tell and hear
)

// Wish is what one end of a negotiated link wants of it; both ends must, lest it stay off.
type Wish struct {
	LLR   bool  `json:"llr,omitempty"`
	CBFC  bool  `json:"cbfc,omitempty"`
	Limit int64 `json:"limit,omitempty"` // bytes that its receiver announces, 0: those of the topology
}

// endsField is the key for the ends of a link that want something.
func endsField(to **[]string) field {
	return field{key: "ends", doc: "Nodes that want it, by name or pattern, where lldp: on; without it both ends.", to: someEnds{to}}
}

// someEnds is a list of nodes or patterns. It is a pointer so that parameters stay comparable.
type someEnds struct{ to **[]string }

func (b someEnds) pointer() any { return b.to }

func (b someEnds) print() (any, bool) {
	if *b.to == nil {
		return nil, false
	}
	return **b.to, true
}

func (b someEnds) decode(d *decoder, v value) {
	items, ok := d.list(v, "[leaf0]")
	if !ok {
		return
	}
	if len(items) == 0 {
		d.form(v.at, v.what, "", "empty", "say off where nobody wants it")
		return
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := d.text(item, "leaf0")
		if !ok {
			return
		}
		if !nodeForm.MatchString(s) {
			d.form(item.at, v.what, s, "not a node or pattern", "write it like leaf0 or leaf*")
			return
		}
		list = append(list, s)
	}
	*b.to = &list
}

func (b someEnds) schema(*schemaDefs) schema {
	return schema{"type": "array", "minItems": 1, "items": schema{"type": "string", "pattern": nodeForm.String()}}
}

// planWishes says of each end of a link that is negotiated what it wants.
func (d *draft) planWishes(p *Plan) {
	met := map[*[]string][]bool{} // of each list, the patterns that have named an end
	var idle []idleEnds
	for i := range p.Links {
		lp, l := d.links[i].effective(), &p.Links[i]
		a, b := &p.Nodes[l.A.Node], &p.Nodes[l.B.Node]
		l.Negotiated = lp.LLDP == lldpOn && a.Kind != KindHost && b.Kind != KindHost
		if lp.LLDP != lldpOn {
			idle = noteEnds(idle, l.Name, "llr", lp.LLR.Mode, lp.LLR.Ends)
			idle = noteEnds(idle, l.Name, "cbfc", lp.CBFC.Mode, lp.CBFC.Ends)
		}
		if !l.Negotiated {
			continue
		}
		for _, e := range []End{l.A, l.B} {
			q := &p.Nodes[e.Node].Ports[e.Port]
			q.Negotiated = true
			q.Wish = Wish{LLR: l.LLR != nil && d.wants(met, lp.LLR.Ends, e), CBFC: l.CBFC != nil && d.wants(met, lp.CBFC.Ends, e)}
		}
		l.Wishes = [2]Wish{a.Ports[l.A.Port].Wish, b.Ports[l.B.Port].Wish}
	}
	d.refuseEnds(idle)
	d.checkEnds(met)
}

// idleEnds are links that negotiate nothing, of a list of ends.
type idleEnds struct {
	ends  *[]string
	key   string
	links []string
}

func noteEnds(idle []idleEnds, link, key, mode string, ends *[]string) []idleEnds {
	if mode != wordOn || ends == nil {
		return idle
	}
	i := slices.IndexFunc(idle, func(x idleEnds) bool { return x.ends == ends })
	if i < 0 {
		i = len(idle)
		idle = append(idle, idleEnds{ends: ends, key: key})
	}
	idle[i].links = append(idle[i].links, link)
	return idle
}

// refuseEnds wants no ends to be chosen on links that negotiate nothing.
func (d *draft) refuseEnds(idle []idleEnds) {
	for _, x := range idle {
		d.problem(d.whereEnds(x.ends), x.key+".ends", strings.Join(*x.ends, ", "), severalLinks(x.links)+" negotiates nothing, so both ends have the same", "say lldp: on, or leave ends out")
	}
}

// severalLinks names the first of some links and says how many more there are.
func severalLinks(links []string) string {
	if len(links) == 1 {
		return "link " + links[0]
	}
	return fmt.Sprintf("link %s, like %d more,", links[0], len(links)-1)
}

// wants says whether an end is one of a list, nil for all, and notes which patterns have named it.
func (d *draft) wants(met map[*[]string][]bool, ends *[]string, e End) (yes bool) {
	if ends == nil {
		return true
	}
	if met[ends] == nil {
		met[ends] = make([]bool, len(*ends))
	}
	for i, pattern := range *ends {
		if (draftEnd{node: d.nodes[e.Node]}).matches(pattern, 0) {
			met[ends][i], yes = true, true
		}
	}
	return yes
}

// checkEnds wants each pattern to name an end of some link that has it.
func (d *draft) checkEnds(met map[*[]string][]bool) {
	lists := []*[]string{}
	for list := range met {
		lists = append(lists, list)
	}
	slices.SortFunc(lists, func(a, b *[]string) int { return d.whereEnds(a).Line - d.whereEnds(b).Line })
	for _, list := range lists {
		for i, ok := range met[list] {
			if !ok {
				d.problem(d.whereEnds(list), "ends", (*list)[i], "no end of a link that has this", "name one of the two nodes of the link, or leave ends out")
			}
		}
	}
}

// whereEnds finds the place of a list of ends in the file.
func (d *draft) whereEnds(list *[]string) position {
	all := []*LinkParams{&d.spec.Defaults.Link}
	for _, l := range d.spec.Links {
		all = append(all, &l.LinkParams)
	}
	for _, lp := range all {
		for _, to := range []**[]string{&lp.LLR.Ends, &lp.CBFC.Ends} {
			if *to == list {
				return d.spec.at(to)
			}
		}
	}
	return position{}
}

// Announced is the profile of a receiver whose room is limit bytes, 0 for what the topology says.
func Announced(s *cbfc.Setup, limit int64) *cbfc.Profile {
	p := s.Profile
	if limit == 0 {
		return &p
	}
	credits := uint32(min((limit+int64(p.CreditSize)-1)/int64(p.CreditSize), cbfc.MaxTotal))
	if p.Method == wire.CBFCTotal {
		p.Total = credits
		return &p
	}
	p.VCs = slices.Clone(p.VCs)
	for i := range p.VCs {
		p.VCs[i].Limit = credits
	}
	return &p
}

// CheckAnnounced says whether frames of a link fit into such a room.
func (l *Link) CheckAnnounced(limit int64) error {
	return cbfc.CheckProfile(Announced(l.CBFC, limit), l.MTU+longestHeader)
}
