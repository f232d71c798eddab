package switchd

import "github.com/uetlab/uetlab/internal/vt"

// group is the ports of equal cost towards a set of prefixes.
type group struct {
	all  []int
	live []int // those whose link is up here
}

// ecmpState is what the switch keeps to choose ports.
type ecmpState struct {
	hasher
}

// setECMP applies settings from now on.
func (s *Switch) setECMP(_ vt.Time, set *ECMP) error { return s.ecmp.configure(set) }

// resetECMP forgets what the run before has left.
func (s *Switch) resetECMP(vt.Time) {}

func (s *Switch) newGroup(ports []int) *group { return &group{all: ports} }

// dead says that no port of the group can send.
func (g *group) dead() bool { return len(g.live) == 0 }

// LinksChanged takes ports whose link is down out of their ECMP groups, and back in when it is up.
func (s *Switch) LinksChanged() {
	for _, g := range s.groups {
		g.live = g.live[:0]
		for _, p := range g.all {
			if s.node.Ports[p].Up() {
				g.live = append(g.live, p)
			}
		}
	}
}

// choose picks a port of the group, which is not dead, for an IP packet.
func (s *Switch) choose(_ vt.Time, g *group, ip []byte) int {
	if len(g.live) == 1 {
		return g.live[0]
	}
	return g.live[int(uint64(s.hash(ip))*uint64(len(g.live))>>32)]
}
