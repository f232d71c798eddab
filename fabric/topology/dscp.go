package topology

import "fmt"

// defaultDSCP are the code points of a file that says nothing (design of the lab, uet-link-switch.md section 5).
var defaultDSCP = DSCP{Control: 46, Data: 10, Retx: 12, Trimmed: 34, LastHop: 36, Unreliable: 8, RoCE: 26}

// plan gives the code points with the defaults for those that are not said.
func (p *DSCPParams) plan() DSCP {
	c := defaultDSCP
	for _, v := range []struct {
		from *int
		to   *uint8
	}{{p.Control, &c.Control}, {p.Data, &c.Data}, {p.Retx, &c.Retx}, {p.Trimmed, &c.Trimmed}, {p.LastHop, &c.LastHop},
		{p.Unreliable, &c.Unreliable}, {p.RoCE, &c.RoCE}} {
		if v.from != nil {
			*v.to = uint8(*v.from)
		}
	}
	return c
}

// classes gives the queue of every code point.
func (c DSCP) classes() (queues [numDSCP]uint8) {
	for dscp, q := range map[uint8]uint8{c.Control: queueControl, c.Data: queueData, c.Retx: queueData, c.Trimmed: queueTrimmed,
		c.LastHop: queueTrimmed, c.Unreliable: queueUnreliable, c.RoCE: queueRoCE} {
		queues[dscp%numDSCP] = q
	}
	return queues
}

// checkDSCP wants each class to have a code point of its own.
func (d *draft) checkDSCP() {
	p := &d.spec.DSCP
	c := p.plan()
	values := []uint8{c.Control, c.Data, c.Retx, c.Trimmed, c.LastHop, c.Unreliable, c.RoCE}
	fields := p.fields()
	for i, v := range values {
		for j := range i {
			if values[j] != v {
				continue
			}
			said, other := fields[i], fields[j]
			if _, set := said.to.print(); !set {
				said, other = other, said
			}
			d.problem(d.spec.at(said.to.pointer()), "dscp."+said.key, fmt.Sprint(v), "also the code point of "+other.key, "give each class its own, from 0 to 63")
			return
		}
	}
}
