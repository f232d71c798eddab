package topology

import "time"

// Bytes of a frame and of what a line carries around it (design of the link model: FCS, preamble, gap).
const (
	ethernetHeader = 14
	minFrame       = 60
	lineOverhead   = 4 + 8 + 12

	// IPv4 + UDP + PDS request + SES standard header + CRC, beside the payload.
	dataHeaders = 20 + 8 + 12 + 44 + 4
	// IPv4 + UDP + ACK_CC + SES response + CRC.
	ackPacket = 20 + 8 + 32 + 12 + 4
	// The deepest stack of headers a data packet can have, less the Ethernet header (uet-wire.md).
	deepestHeaders = 190 - ethernetHeader
)

// payloadMTU gives the largest standard payload that fits every link under the deepest stack of headers.
func payloadMTU(p *Plan) int {
	mtu := p.Links[0].MTU
	for _, l := range p.Links {
		mtu = min(mtu, l.MTU)
	}
	size := 1024
	for size < 8192 && 2*size+deepestHeaders <= mtu {
		size *= 2
	}
	return size
}

// pointRate is the fastest link of an end point, bits per second.
func pointRate(p *Plan) int64 {
	rate := int64(0)
	for _, n := range p.Nodes {
		if n.Kind != KindSwitch {
			rate = max(rate, n.Ports[0].Rate)
		}
	}
	return rate
}

// hop gives the time from the first bit of an IP packet on the link to its last bit at the far end.
func (l *Link) hop(ipBytes int) time.Duration {
	bits := int64(max(ipBytes+ethernetHeader, minFrame)+lineOverhead) * 8
	return time.Duration(mulDiv(bits, int64(time.Second), l.Rate)) + l.Delay
}

// baseRTT is the longest idle round trip between two end points: one full data packet out and one ACK back, each
// on the slowest of the equal-cost shortest paths.
func baseRTT(p *Plan) time.Duration {
	data, ack := make([]time.Duration, len(p.Links)), make([]time.Duration, len(p.Links))
	for i := range p.Links {
		data[i], ack[i] = p.Links[i].hop(p.PayloadMTU+dataHeaders), p.Links[i].hop(ackPacket)
	}
	longest := time.Duration(0)
	s := pathSearch{plan: p, dist: make([]int, len(p.Nodes)), out: make([]time.Duration, len(p.Nodes)), back: make([]time.Duration, len(p.Nodes))}
	for i := range p.Nodes {
		if p.Nodes[i].Kind != KindSwitch {
			longest = max(longest, s.from(i, data, ack))
		}
	}
	return longest
}

// pathSearch finds the slowest shortest paths from one end point; its slices are used again for the next.
type pathSearch struct {
	plan      *Plan
	dist      []int
	out, back []time.Duration // towards the end point that the search started from, and from it
	queue     []int
}

func (s *pathSearch) from(start int, data, ack []time.Duration) time.Duration {
	for i := range s.dist {
		s.dist[i], s.out[i], s.back[i] = -1, 0, 0
	}
	s.dist[start] = 0
	s.queue = append(s.queue[:0], start)
	longest := time.Duration(0)
	for head := 0; head < len(s.queue); head++ {
		u := s.queue[head]
		n := &s.plan.Nodes[u]
		if n.Kind != KindSwitch && u != start {
			longest = max(longest, s.out[u]+s.back[u])
			continue // an end point forwards nothing
		}
		for _, port := range n.Ports {
			v := port.Peer
			if s.dist[v] < 0 {
				s.dist[v] = s.dist[u] + 1
				s.queue = append(s.queue, v)
			}
			if s.dist[v] == s.dist[u]+1 {
				s.out[v] = max(s.out[v], s.out[u]+n.Latency+data[port.Link])
				s.back[v] = max(s.back[v], s.back[u]+n.Latency+ack[port.Link])
			}
		}
	}
	return longest
}
