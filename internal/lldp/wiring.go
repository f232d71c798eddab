package lldp

import "fmt"

// End is one end of a link: a port of a node.
type End struct{ Node, Port string }

// String gives "leaf0 eth3".
func (e End) String() string { return e.Node + " " + e.Port }

// Link is what is at the far end of a port: in a topology, or as its agent has heard. Found is false where it has heard nobody.
type Link struct {
	Local, Peer End
	Found       bool
}

// Mistake is a port whose neighbour is not the one of the topology.
type Mistake struct {
	Local    End
	Found    *End // nil: nobody was heard
	Expected *End // nil: the topology has no link there
}

// String describes the mistake in a line.
func (m Mistake) String() string {
	switch {
	case m.Found == nil:
		return fmt.Sprintf("%v: no LLDP neighbour, expected %v", m.Local, *m.Expected)
	case m.Expected == nil:
		return fmt.Sprintf("%v: LLDP neighbour %v, but the topology has no link there", m.Local, *m.Found)
	}
	return fmt.Sprintf("%v: LLDP neighbour %v, expected %v", m.Local, *m.Found, *m.Expected)
}

// CheckWiring compares what ports have heard with a topology, both listed port by port, and returns what is wrong in the order
// of heard. Ports that are not in heard, those of nodes without agents say, are not missed.
func CheckWiring(topology, heard []Link) (list []Mistake) {
	expected := make(map[End]*End, len(topology))
	for i := range topology {
		expected[topology[i].Local] = &topology[i].Peer
	}
	for i := range heard {
		h := &heard[i]
		m := Mistake{Local: h.Local, Expected: expected[h.Local]}
		if h.Found {
			m.Found = &h.Peer
		}
		if (m.Found != nil || m.Expected != nil) && (m.Found == nil || m.Expected == nil || *m.Found != *m.Expected) {
			list = append(list, m)
		}
	}
	return list
}
