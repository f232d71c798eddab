package topology

import "fmt"

// htsimTiers are the names of tiers in htsim's files.
var htsimTiers = map[string]int{"TOR": 1, "AGG": 2, "CORE": 3}

// HTSimLink finds the link that a failure in a connection matrix means: of switch number sw of a tier (TOR, AGG or CORE),
// the way up to the tier above number link. It gives an index into Links; of parallel links, the first.
func (p *Plan) HTSimLink(tier string, sw, link int) (id int, err error) {
	level, ok := htsimTiers[tier]
	if !ok {
		return 0, fmt.Errorf("switch_type (%s): no tier; take TOR, AGG or CORE", tier)
	}
	switches := 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Kind != KindSwitch || n.Tier != level {
			continue
		}
		if switches == sw {
			return p.wayUp(n, link)
		}
		switches++
	}
	return 0, fmt.Errorf("switch_id (%d): %s has %d switches of tier %s; take a number below that", sw, p.Name, switches, tier)
}

// wayUp finds the first link to the number-th switch above n.
func (p *Plan) wayUp(n *Node, number int) (int, error) {
	above := map[int]bool{}
	for _, port := range n.Ports {
		if p.Nodes[port.Peer].Tier <= n.Tier || above[port.Peer] {
			continue
		}
		if len(above) == number {
			return port.Link, nil
		}
		above[port.Peer] = true
	}
	if len(above) == 0 {
		return 0, fmt.Errorf("link_id (%d): %s is at the top; name a switch of a lower tier", number, n.Name)
	}
	return 0, fmt.Errorf("link_id (%d): %s has %d ways up; take a number below that", number, n.Name, len(above))
}
