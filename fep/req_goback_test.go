package fep

import (
	"errors"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// A packet of an ordered PDC that never arrives, while Probes are answered: going back for it is repeated ever more slowly, until its
// timeouts count and the PDC fails. Whether it has packets behind it, which are dropped, or is the last one makes no difference.
func TestG03_GoBackEnds(t *testing.T) {
	const packets, most = 20, 600
	for _, gap := range []int32{0, 3, packets - 1} {
		l := orderedLab(t, Config{MaxNackRetx: 31})
		list := l.watch()
		missing := l.source().Tx.Next.Add(gap)
		l.script = func(from int, b []byte) fate {
			r, err := wire.ParseRequest(firstUET(b))
			return fate{drop: err == nil && requests(0, firstUET(b)) && r.PSN() == missing}
		}
		l.got = [2][]Completion{}
		at := l.now() + 1
		l.call(1, at, func(now vt.Time) { _ = l.eps[1].TagRecv(now, 0, make([]byte, packets*4096), 5, 11) })
		l.call(0, at+1, func(now vt.Time) {
			if err := l.eps[0].TagSend(now, 1, make([]byte, packets*4096), 5, 22); err != nil {
				t.Error(err)
			}
		})
		for len(l.got[0]) == 0 && len(*list) < most && l.step(vt.Never) {
		}
		var pe *PDCError
		if len(l.got[0]) != 1 || !errors.As(l.got[0][0].Err, &pe) || l.count(RTOExhausted) != 1 {
			t.Errorf("packet %d missing: after %d packets, %d timeouts, %d Probes, %d sent again: %+v", gap, len(*list), l.count(RTO),
				l.count(TailProbes), l.count(Retx), l.got[0])
		}
	}
}

// F05: what an ordered peer refuses for now is not sent again before NACK_Retx_Time, though the packets behind it are out of order and
// Probes are answered; then it goes with all that follow, in order.
func TestF05_OrderedRefusalWaits(t *testing.T) {
	s := newPeerStub(t, Config{})
	s.eps[0].SetOrdered(true)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 10), 1, 1) })
	s.ack(0, 0)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 3*4096), 1, 2) })
	s.got = nil
	s.nack(wire.NackNoSESMsgAvail, 1)
	at, end, seen := s.now(), s.now()+950_000, len(s.raw)
	s.nack(wire.NackRODOOO, 2)
	for ; at < end; at += 5000 {
		s.run(at)
		for ; seen < len(s.raw); seen++ {
			if c, err := wire.ParseCtrl(firstUET(s.raw[seen])); err == nil && c.Ctl() == wire.CtlProbe {
				s.ackWith(wire.AckFields{Flags: wire.AckP, ProbeOpaque: c.ProbeOpaque()}, 0, nil)
			}
		}
	}
	if s.count(Retx) != 0 {
		t.Fatalf("%d packets were sent again before the time", s.count(Retx))
	}
	s.got = nil
	s.run(end + 60_000)
	if len(s.got) < 3 {
		t.Fatalf("after the wait: %v", s.got)
	}
	s.got = s.got[:3]
	s.expect("0 ROD_REQ psn 1 clr -1 AR RETX", "0 ROD_REQ psn 2 clr -2 AR RETX", "0 ROD_REQ psn 3 clr -3 AR RETX")
}

// F05: what a peer refuses again and again takes turns with everything else in a window of one packet, and one refused packet with the
// other, however long they have been due.
func TestF05_RefusedTakeTurns(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, NoInfer: true, Window: 4300, NackRetxTime: 10 * time.Microsecond, RTOInit: time.Second, TailLossTime: time.Second})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 10), 1, 1) })
	s.ack(0, 0)
	s.got = nil
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 6*4096), 1, 2) })
	s.nack(wire.NackNoSESMsgAvail, 1)
	s.nack(wire.NackNoSESMsgAvail, 2)
	s.expect("0 RUD_REQ psn 1 clr -1 AR", "0 RUD_REQ psn 2 clr -2 AR", "0 RUD_REQ psn 3 clr -3 AR")
	for _, step := range []struct {
		psn  int16
		next string
	}{{3, "0 RUD_REQ psn 1 clr -1 AR RETX"}, {-1, "0 RUD_REQ psn 4 clr -4 AR"}, {4, "0 RUD_REQ psn 2 clr -2 AR RETX"},
		{-2, "0 RUD_REQ psn 5 clr -5 AR"}, {5, "0 RUD_REQ psn 1 clr -1 AR RETX"}, {-1, "0 RUD_REQ psn 6 clr -6 AR"}} {
		s.pass(20_000)
		if step.psn < 0 {
			s.nack(wire.NackNoSESMsgAvail, -int32(step.psn))
		} else {
			s.ack(0, step.psn)
		}
		s.expect(step.next)
	}
}
