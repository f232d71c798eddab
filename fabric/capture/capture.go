// Package capture takes the frames off a link for uetlab tcpdump: it reads the packet sockets that the two receiving
// ends opened, filters, puts both directions into the order of virtual time, and writes pcapng or one line a packet.
//
// A socket is opened by the node, in its own namespace (OpenSocket), and handed to whoever runs the capture (Run). Frames
// between lab nodes end in a link trailer; it gives the time of the packet and is taken off before the filter sees it.
// Frames of plain hosts have none and take the time at which the fabric stands. The package does not find links or
// nodes, does not talk to the daemon, and never puts a frame on a wire.
package capture

import (
	"bytes"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Packet is a captured frame.
type Packet struct {
	Iface   int     // index of its direction
	Due     vt.Time // virtual time at which its last bit arrived
	Timed   bool    // Due comes from the frame; if not, the Sorter gives one
	Wall    int64   // ns since 1970 at which the kernel took it
	Data    []byte  // from the Ethernet header on, without link trailer
	Len     int     // length on the wire without link trailer; at least len(Data)
	Comment string  // what is wrong with the frame, or ""
	LLR     uint32  // LLR word of its trailer: number and flags of a frame that link layer retry protects
}

// Direction is one direction of a link: an interface of the capture.
type Direction struct {
	FromNode, FromPort string // the sending end: "leaf0", "eth3"
	ToNode, ToPort     string // the receiving end, where it is captured
	Description        string // for people: link name, rate
	Trailer            bool   // both ends are lab nodes: frames end in the link trailer
}

// Name is the name of the interface in a capture file: "leaf0:eth3 > spine1:eth1".
func (d Direction) Name() string {
	return d.FromNode + ":" + d.FromPort + " > " + d.ToNode + ":" + d.ToPort
}

// Short is the direction in one word: "leaf0>spine1".
func (d Direction) Short() string { return d.FromNode + ">" + d.ToNode }

// Stats are the counters of one direction.
type Stats struct {
	Received  uint64 // frames that came to the socket, also those that found no room
	Dropped   uint64 // frames lost because the capture was too slow
	Delivered uint64 // frames written
}

// Comments on what the trailer says of a frame.
const (
	commentNone     = "no link trailer where one belongs"
	commentPreamble = "preamble damaged on the link: the receiver loses this frame"
	commentFCS      = "FCS does not fit: damaged on the link"
	commentPoisoned = "FCS poisoned: damaged before this link"
)

// split parts what a socket delivered into frame and trailer. length is that of the whole, raw may be less. Data of the
// result points into raw.
func split(raw []byte, length int, trailer bool) Packet {
	p := Packet{Data: raw, Len: max(length, len(raw))}
	if !trailer {
		return p
	}
	if length > len(raw) {
		p.Comment = "cut short: the link trailer is missing"
		return p
	}
	frame, t, ok := wire.SplitTrailer(raw)
	if ok {
		p.Data, p.Due, p.LLR = frame, vt.Time(t.Due), t.LLR
		switch {
		case t.FCSOK(frame):
		case t.FCS == wire.FCS(frame)^wire.FCSPoison:
			p.Comment = commentPoisoned
		default:
			p.Comment = commentFCS
		}
	} else {
		tail := wire.TrailerOf(raw)
		if !bytes.HasPrefix(tail, []byte("UEL1")) {
			p.Comment = commentNone
			return p
		}
		// An impairment damages the LLR word, never the time.
		p.Data, p.Due, p.Comment = raw[:len(raw)-len(tail)], vt.Time(tail.Due()), commentPreamble
	}
	p.Timed = p.Due >= 0
	p.Len = len(p.Data)
	return p
}
