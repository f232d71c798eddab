package pds

import "net/netip"

// Room estimates how many bytes, in nominal ones, a new message could send at once: what the window of a PDC for it leaves, of the
// one with the most. False says that there is no PDC yet.
func (m *Manager) Room(peer netip.Addr, job uint32, tc uint8, mode Mode) (bytes int64, ok bool) {
	g := m.groups[groupKey{peer: peer, job: job, tc: tc, mode: mode}]
	if g == nil {
		return 0, false
	}
	for _, p := range g.pdcs {
		if p.state == Opening || p.state == Established {
			bytes, ok = max(bytes, p.window()-p.s.inflight-p.s.backlog), true
		}
	}
	return bytes, ok
}
