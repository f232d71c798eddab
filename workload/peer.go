package workload

import (
	"fmt"
	"net/netip"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
)

// Peer is where the process of a rank is reached, and what is spoken there.
type Peer struct {
	Addr       netip.Addr   `json:"addr"`                 // fabric address
	PID        uint16       `json:"pid"`                  // PIDonFEP within the job
	Profiles   fep.Profiles `json:"profiles,omitempty"`   // 0: those of whoever asks
	PayloadMTU int          `json:"payloadMtu,omitempty"` // bytes; 0: that of whoever asks
}

// PeerAt is process pid of a job on an end point of a plan.
func PeerAt(plan *topology.Plan, node int, pid uint16) Peer {
	n := &plan.Nodes[node]
	return Peer{Addr: n.Addr4, PID: pid, Profiles: profilesOf(n), PayloadMTU: plan.PayloadMTU}
}

func profilesOf(n *topology.Node) fep.Profiles {
	if n.FEP == nil {
		return fep.DefaultProfiles
	}
	return fep.ProfilesOf(n.FEP.Profiles)
}

// Peers lists the ranks of a run.
func (s *Spec) Peers(plan *topology.Plan) []Peer {
	peers := make([]Peer, len(s.Nodes))
	for i, pid := range s.PIDs() {
		peers[i] = PeerAt(plan, s.Nodes[i], pid)
	}
	return peers
}

// Address is that of rank number rank, as an address vector takes it.
func (p Peer) Address(rank int) fep.Address {
	return fep.Address{FA: p.Addr, PID: p.PID, Initiator: uint32(rank), Profiles: p.Profiles, PayloadMTU: p.PayloadMTU}
}

// Compatible says whether all of these can talk to each other. The error names the first two that have no profile in
// common. Sets that are not known, 0, are passed over.
func Compatible(names []string, sets []fep.Profiles) error {
	var first [1 << 3]int // which has this set, from 1: there are few sets
	for i, p := range sets {
		if p == 0 || first[p&7] != 0 {
			continue
		}
		first[p&7] = i + 1
		for _, k := range first {
			if k > 0 && p.With(sets[k-1]) == 0 {
				return fmt.Errorf("%s (%s) and %s (%s) have no profile in common", names[k-1], sets[k-1], names[i], p)
			}
		}
	}
	return nil
}

// Talk says whether the end points of a plan with these numbers can all talk to each other, as Compatible does.
func Talk(plan *topology.Plan, nodes ...int) error {
	names, sets := make([]string, len(nodes)), make([]fep.Profiles, len(nodes))
	for i, id := range nodes {
		names[i], sets[i] = plan.Nodes[id].Name, profilesOf(&plan.Nodes[id])
	}
	return Compatible(names, sets)
}
