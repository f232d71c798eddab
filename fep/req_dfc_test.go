package fep

import (
	"testing"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// TestDFCOnTheWire: ACKs carry a penalty for the source's window that follows from what is kept of messages without a receive: none
// below a quarter of the room, then in proportion up to 127 with half of it, the penalty's end once receives have taken them (uet-cms.md section 5).
func TestDFCOnTheWire(t *testing.T) {
	for _, off := range []bool{false, true} {
		s := newStub(t, Config{Profiles: HPC | AIFull | AIBase, Unexpected: 10_000, NoDFC: off})
		s.open()
		state := func() wire.NSCCState {
			t.Helper()
			if len(s.raw) == 0 {
				t.Fatal("no ACK")
			}
			a, err := wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
			if err != nil || a.CCType() != wire.CCTypeNSCC {
				t.Fatal(err)
			}
			return wire.UnpackNSCC(a.CCState())
		}
		send := func(i int32) {
			s.raw = nil
			s.request(req{psn: i, flags: wire.ReqAR, clear: int16(-1), mid: uint16(i), op: wire.OpTaggedSend, tag: uint64(100 + i), total: 1000, n: 1000})
		}
		// 127 x (4 x used - 10)/10 in whole numbers.
		for i, want := range []uint8{0, 0, 25, 76, 127, 127, 127, 127, 127, 127} {
			if off {
				want = 0
			}
			send(int32(i) + 1)
			if c := state(); c.RcvCwndPend != want || c.RC {
				t.Errorf("off %v, %d000 of 10000 bytes kept: pend %d rc %v, want %d", off, i+1, c.RcvCwndPend, c.RC, want)
			}
		}
		for i := range 8 {
			s.recv(uint64(101+i), 1000)
		}
		s.recv(111, 1000)
		send(11) // finds its receive; two are kept
		if c := state(); c.RcvCwndPend != 0 || c.RC == off {
			t.Errorf("off %v, 2000 bytes kept: pend %d rc %v", off, c.RcvCwndPend, c.RC)
		}
	}
}

// TestSlowReceiver has a source of many messages and a destination that posts a receive for one of them now and then. The room for those
// that come before their receives is an eighth of what is sent: with DFC the source slows down to the receiver's pace, and no message is
// refused; without it half of them are.
func TestSlowReceiver(t *testing.T) {
	const msgs, size, every = 512, 4096, 250 // 131 Gb/s, of 400
	for _, off := range []bool{false, true} {
		l := newLab(t, Config{CC: testCC(cms.AlgNSCC), LB: "oblivious", Profiles: HPC | AIFull | AIBase, Unexpected: msgs * size / 8, NoDFC: off})
		most := uint64(0)
		l.tap = func(now vt.Time, from int, b []byte) { most = max(most, l.feps[1].C[EarlyBytes]) }
		l.call(0, 1, func(now vt.Time) {
			for i := range msgs {
				if err := l.eps[0].TagSend(now, 1, make([]byte, size), 7, uint64(i)); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range msgs {
			l.call(1, vt.Time(1000+every*i), func(now vt.Time) { _ = l.eps[1].TagRecv(now, 0, make([]byte, size), 7, uint64(i)) })
		}
		l.run(50_000_000)
		failed := 0
		var last vt.Time
		for _, c := range l.got[0] {
			if c.Err != nil {
				failed++
			}
		}
		for _, c := range l.got[1] {
			if c.Err == nil {
				last = max(last, c.Acked)
			}
		}
		t.Logf("DFC off %v: %d of %d messages refused, at most %d of %d bytes kept, the last arrived at %v", off, failed, len(l.got[0]), most, msgs*size/8, last)
		if len(l.got[0]) != msgs || (failed > 0) != off || off && failed < msgs/4 {
			t.Errorf("DFC off %v: %d completions, %d refused", off, len(l.got[0]), failed)
		}
		if pace := vt.Time(1000 + every*(msgs-1)); !off && (last < pace || last > pace+pace/10) {
			t.Errorf("the last message arrived at %v, want at the receiver's pace, %v", last, pace)
		}
	}
}
