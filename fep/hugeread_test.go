package fep

import (
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// TestReadOfMoreThanAPacket: a forged last request of a read that asks for more than a packet can carry is refused, and nothing
// longer than a frame is built.
func TestReadOfMoreThanAPacket(t *testing.T) {
	s := newStub(t, Config{PayloadMTU: 1024})
	s.open()
	key := s.eps[1].Register(make([]byte, 16000))
	s.request(req{psn: 1, flags: wire.ReqAR, clear: -1, mid: 2, op: wire.OpRead, key: key, off: 1024, total: 16000, n: 16000 - 1024, read: true})
	for _, b := range s.raw {
		if len(b) > s.nodes[1].Pool.MaxFrame() {
			t.Errorf("a frame of %d bytes", len(b))
		}
	}
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE OP_VIOLATION 0")
}
