package fep

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// F01: a packet that times out is sent again with the same PSN, retx and AR.
func TestF01_RetransmissionByRTO(t *testing.T) {
	l := newLab(t, Config{NoInfer: true})
	l.exchange(10)
	list := l.watch()
	l.script = nth(2, fate{drop: true}, requests)
	l.exchange(5 * 4096)
	var lost []passed
	for _, p := range requestsIn(*list, 0) {
		if r, _ := p.request(); r.PSN() == l.source().Start.Add(3) {
			lost = append(lost, p)
		} else if r.RETX() {
			t.Errorf("PSN %v is sent again", r.PSN())
		}
	}
	if len(lost) != 2 {
		t.Fatalf("the lost packet is sent %d times", len(lost))
	}
	a, _ := lost[0].request()
	b, _ := lost[1].request()
	if a.RETX() || a.AR() || !b.RETX() || !b.AR() || lost[1].at.Sub(lost[0].at) != time.Millisecond {
		t.Errorf("retx %v, AR %v; after %v retx %v, AR %v", a.RETX(), a.AR(), lost[1].at.Sub(lost[0].at), b.RETX(), b.AR())
	}
	if !bytes.Equal(lost[0].u[len(a):], lost[1].u[len(b):]) || l.count(RetxRTO) != 1 {
		t.Errorf("contents differ, or %d timeouts", l.count(RetxRTO))
	}
}

// F02: the time to the next retransmission doubles, and after five of them the PDC ends in error.
func TestF02_Backoff(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		cfg  Config
		want []time.Duration // after the first transmission; the last is the end
	}{
		{Config{}, []time.Duration{1 * ms, 3 * ms, 7 * ms, 15 * ms, 31 * ms, 63 * ms}},
		{Config{MaxRTORetx: 2, RTOInit: 2 * ms}, []time.Duration{2 * ms, 6 * ms, 14 * ms}},
		{Config{RTOMax: 3 * ms}, []time.Duration{1 * ms, 3 * ms, 6 * ms, 9 * ms, 12 * ms, 15 * ms}},
	} {
		m := newMute(t, c.cfg)
		m.post(10)
		m.run(vt.Time(time.Second))
		at := m.sentAt(0)
		if len(at) != len(c.want) || len(m.got[0]) != 1 {
			t.Fatalf("%+v: %d transmissions, completions %+v", c.cfg, len(at), m.got[0])
		}
		at = append(at, m.got[0][0].Acked)
		for i, w := range c.want {
			if d := at[i+1].Sub(at[0]); d != w {
				t.Errorf("%+v: step %d after %v, want %v", c.cfg, i, d, w)
			}
		}
		var pe *PDCError
		if !errors.As(m.got[0][0].Err, &pe) || m.count(PDCFailed) != 1 || m.count(RTOExhausted) != 1 || m.source() != nil {
			t.Errorf("%+v: ends with %v, %d PDCs failed", c.cfg, m.got[0][0].Err, m.count(PDCFailed))
		}
	}
}

// F03: a limit of 15 is none.
func TestF03_NoLimit(t *testing.T) {
	m := newMute(t, Config{MaxRTORetx: InfiniteRTO})
	m.post(10)
	m.run(vt.Time(400 * time.Second))
	if n := len(m.sentAt(0)); n < 100 || m.count(PDCFailed) != 0 || len(m.got[0]) != 0 {
		t.Errorf("%d transmissions, then %+v", n, m.got[0])
	}
	m.script = nil
	m.run(vt.Time(410 * time.Second))
	m.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: 10})
}

// F04: the RTO runs from the last transmission, whatever that was for.
func TestF04_TimerFromLastTransmission(t *testing.T) {
	m := newMute(t, Config{})
	m.post(10)
	first := m.sentAt(0)[0]
	m.nack(first+600_000, wire.NackTrimmed, 0)
	m.run(first + 2_500_000)
	at := m.sentAt(0)
	if len(at) != 3 || at[1] != first+600_000 || at[2] != at[1]+1_000_000 {
		t.Errorf("sent at %v, want again after 600 us by the NACK, and 1 ms after that", at)
	}
}

// F05: a packet that was refused for want of resources is sent again NACK_Retx_Time later, and not before, even
// where its RTO is shorter.
func TestF05_ResourceNack(t *testing.T) {
	for code := wire.NackNoPDCAvail; code <= wire.NackPSNOORWindow; code++ {
		for _, wait := range []time.Duration{300 * time.Microsecond, 3 * time.Millisecond} {
			m := newMute(t, Config{NackRetxTime: wait})
			m.post(10)
			first := m.sentAt(0)[0]
			m.nack(first+40_000, code, 0)
			m.run(first.Add(wait) + 100_000)
			if at := m.sentAt(0); len(at) != 2 || at[1].Sub(first+40_000) != wait {
				t.Errorf("%v: sent at %v, want again %v after the NACK at %v", code, at, wait, first+40_000)
			}
		}
	}
}

// F06: five refusals of a packet are borne, the sixth ends the PDC; with a limit of 31 any number is borne.
func TestF06_NackLimit(t *testing.T) {
	for _, c := range []struct{ limit, want int }{{0, 6}, {2, 3}, {InfiniteNack, 100}} {
		m := newMute(t, Config{MaxNackRetx: c.limit, NackRetxTime: 100 * time.Microsecond})
		m.post(10)
		for range 100 {
			n := len(m.sentAt(0))
			m.nack(m.nodes[0].Now()+1000, wire.NackNoResource, 0)
			m.run(m.nodes[0].Now() + 102_000)
			if len(m.sentAt(0)) == n {
				break
			}
		}
		failed := c.limit != InfiniteNack
		if n := len(m.sentAt(0)); !failed && n != 101 || failed && n != c.want || (m.count(PDCFailed) == 1) != failed || (len(m.got[0]) == 1) != failed {
			t.Errorf("limit %d: %d transmissions, %d PDCs failed, %+v", c.limit, n, m.count(PDCFailed), m.got[0])
		}
		var pe *PDCError
		if failed && (!errors.As(m.got[0][0].Err, &pe) || pe.Code != wire.NackNoResource) {
			t.Errorf("limit %d: %v", c.limit, m.got[0][0].Err)
		}
	}
}

// F06: a refusal is an answer, so the RTO begins anew with it: a packet that is refused and lost in turn, more often than timeouts are
// borne, is sent again RTO_Init after each loss and does not end the PDC. Silence does, after as many timeouts as without refusals.
func TestF06_RefusalRestartsRTO(t *testing.T) {
	const wait = 300_000
	for code := wire.NackNoPDCAvail; code <= wire.NackPSNOORWindow; code++ {
		m := newMute(t, Config{MaxNackRetx: InfiniteNack, NackRetxTime: wait})
		m.post(10)
		for range 20 {
			at := m.sentAt(0)
			lost := at[len(at)-1]
			m.run(lost + 1_100_000)
			m.nack(lost+1_200_000, code, 0)
			m.run(lost + 1_200_000 + wait + 1000)
			if at = m.sentAt(0)[len(at):]; len(at) != 2 || at[0] != lost+1_000_000 || at[1] != lost+1_200_000+wait {
				t.Fatalf("%v: lost at %v and refused 1.2 ms later, sent again at %v, completions %+v", code, lost, at, m.got[0])
			}
		}
		n := len(m.sentAt(0))
		last := m.sentAt(0)[n-1]
		m.run(last + 100_000_000)
		if at := m.sentAt(0); len(at) != n+5 || len(m.got[0]) != 1 || m.got[0][0].Acked != last+63_000_000 || m.count(RTOExhausted) != 1 {
			t.Errorf("%v: silence from %v on: %d more transmissions, completions %+v", code, last, len(at)-n, m.got[0])
		}
	}
}

// F06: what counts are retransmissions. Copies of a NACK that come before the packet is sent again cause none.
func TestF06_CopiesOfANack(t *testing.T) {
	m := newMute(t, Config{NackRetxTime: 100 * time.Microsecond})
	m.post(10)
	for n := 1; n <= 6; n++ {
		if got := len(m.sentAt(0)); got != n || m.count(PDCFailed) != 0 {
			t.Fatalf("%d transmissions, want %d; %d PDCs failed", got, n, m.count(PDCFailed))
		}
		for i := range vt.Time(3) {
			m.nack(m.nodes[0].Now()+1000+i, wire.NackNoResource, 0)
		}
		m.run(m.nodes[0].Now() + 102_000)
	}
	if n := len(m.sentAt(0)); n != 6 || m.count(PDCFailed) != 1 {
		t.Errorf("%d transmissions, %d PDCs failed", n, m.count(PDCFailed))
	}
}

// F06: while a packet is missing below responses that the peer keeps for us, those above it that find no room are refused without limit:
// it is ours, and comes free with that packet, which has limits of its own.
func TestF06_OwnRoom(t *testing.T) {
	s := newPeerStub(t, Config{PDCsPerKey: 1, NoInfer: true, NackRetxTime: 100 * time.Microsecond})
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 10), 1, 1) })
	s.ack(0, 0)
	s.post(func(now vt.Time) error { return s.eps[0].TagSend(now, 1, make([]byte, 3*4096), 1, 2) })
	s.ackWith(wire.AckFields{AckOffset: 3, Req: wire.AckReqClear}, 0, nil)
	s.pass(300_000)
	for i := range 30 {
		s.nack(wire.NackNoGtdDelAvail, 2)
		s.pass(110_000)
		if s.count(PDCFailed) != 0 {
			t.Fatalf("failed after %d refusals", i+1)
		}
	}
	for i := range 6 {
		if s.count(PDCFailed) != 0 {
			t.Fatalf("the missing packet was refused %d times and the PDC failed", i)
		}
		s.nack(wire.NackNoGtdDelAvail, 1)
		s.pass(110_000)
	}
	var pe *PDCError
	if len(s.lab.got[0]) != 2 || !errors.As(s.lab.got[0][1].Err, &pe) || pe.Code != wire.NackNoGtdDelAvail {
		t.Errorf("%+v", s.lab.got[0])
	}
}

// F07: the RTO makes up for a lost NACK.
func TestF07_LostNack(t *testing.T) {
	l := newLab(t, Config{NoInfer: true})
	l.exchange(10)
	trimmed := nthOf(0, requests)
	cut := l.trimming(34, trimmed)
	lost := 0
	l.script = func(from int, b []byte) fate {
		if wire.Prologue(firstUET(b)).Type().IsNack() {
			lost++
			return fate{drop: true}
		}
		return cut(from, b)
	}
	l.exchange(100)
	if c := l.got[0][0]; lost != 1 || l.count(RetxRTO) != 1 || l.count(Retx) != 1 || c.Acked-c.Posted < 1_000_000 {
		t.Errorf("%d NACKs lost, %d sent again, %d of them by RTO", lost, l.count(Retx), l.count(RetxRTO))
	}
}

// F08: a NACK for a PSN that is not outstanding, or for another PDC, changes nothing.
func TestF08_NackOutsideWindow(t *testing.T) {
	m := newMute(t, Config{})
	m.post(3 * 4096)
	now := m.nodes[0].Now() + 1000
	m.ack(now, 0, 0, 0) // PSN 0 is done
	m.run(now)
	before := *m.source()
	for i, psn := range []int32{0, -1, -1000, 3, 4, 1 << 20} {
		for j, code := range []wire.NackCode{wire.NackTrimmed, wire.NackInvDPDCID, wire.NackNoResource, wire.NackNewStartPSN} {
			m.nack(now+vt.Time(10*i+j+1), code, psn)
		}
	}
	id := m.id
	m.id++
	m.nack(now+90, wire.NackUnexpEvent, 1)
	m.id = id
	m.run(now + 1000)
	p := m.source()
	if p == nil {
		t.Fatal("the PDC is gone")
	}
	before.Idle, before.Age = p.Idle, p.Age
	if *p != before || m.count(Retx) != 0 || m.count(StaleAck) != 24 || m.count(UnknownPDCID) != 1 {
		t.Errorf("%d sent again, %d NACKs out of place, %d for nobody:\n%+v\n%+v", m.count(Retx), m.count(StaleAck), m.count(UnknownPDCID), before, *p)
	}
}

// closing are the NACK codes that end a PDC (uet-pds-ses.md 11), other than CLOSING, by hand from the page.
var closing = map[wire.NackCode]bool{0x0E: true, 0x0F: true, 0x11: true, 0x13: true, 0x15: true, 0x16: true, 0x19: true, 0xFE: true, 0xFF: true}

// F09: each code that is to close the PDC does so, and no other, whether it is ordered or not. With CLOSING, a
// message of which nothing was delivered goes to another PDC.
func TestF09_ClosingCodes(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for i := 1; i < 256; i++ {
			code := wire.NackCode(i)
			if code == wire.NackRODOOO && !ordered {
				continue // the page does not say what it means there
			}
			m := newMute(t, Config{})
			m.eps[0].SetOrdered(ordered)
			m.post(3 * 4096)
			now := m.nodes[0].Now() + 1000
			m.nack(now, code, 1)
			m.run(now + 5000)
			var pe *PDCError
			failed := len(m.got[0]) == 1 && errors.As(m.got[0][0].Err, &pe) && pe.Code == code
			gone := m.role(0, true) == nil || m.role(0, true).ID != m.id
			if want := closing[code]; failed != want || gone != (want || code == wire.NackClosing) {
				t.Errorf("ordered %v, %v: PDC gone %v, message failed %v; want %v", ordered, code, gone, failed, want)
			}
			if gone != (m.count(PDCFailed)+m.count(PDCClosed) == 1) {
				t.Errorf("ordered %v, %v: gone %v, %d PDCs failed", ordered, code, gone, m.count(PDCFailed))
			}
			if code == wire.NackClosing {
				all := requestsIn(*m.list, 0)
				r, _ := all[len(all)-1].request()
				if !r.SYN() || r.SPDCID() == m.id || r.PSNOffset() != 2 {
					t.Errorf("ordered %v: the message does not go to another PDC", ordered)
				}
			}
		}
	}
	var m *mute
	for _, sacked := range []bool{false, true} { // one packet has arrived: the message cannot begin anew
		m = newMute(t, Config{})
		m.post(3 * 4096)
		now := m.nodes[0].Now() + 1000
		if sacked {
			m.ack(now, -1, -1, 1<<2)
		} else {
			m.ack(now, 0, 0, 0)
		}
		m.nack(now+1000, wire.NackClosing, 1)
		m.run(now + 5000)
		var pe *PDCError
		if len(m.got[0]) != 1 || !errors.As(m.got[0][0].Err, &pe) || pe.Code != wire.NackClosing {
			t.Errorf("CLOSING in the middle of a message, sacked %v: %+v", sacked, m.got[0])
		}
	}
	m.script = nil
	m.exchange(100) // the end point lives on
}

// F10: NACKs with codes that mean nothing are dropped and counted.
func TestF10_UnknownCodes(t *testing.T) {
	m := newMute(t, Config{})
	m.post(10)
	now, n := m.nodes[0].Now()+1000, 0
	before := *m.source()
	for i := range 256 {
		if i == 0 || i == 0x0C || i > 0x1A && i < 0xFD {
			n++
			m.nack(now+vt.Time(n), wire.NackCode(i), 0)
		}
	}
	m.run(now + 1000)
	p := m.source()
	if p == nil {
		t.Fatal("the PDC is gone")
	}
	before.Idle, before.Age = p.Idle, p.Age
	if *p != before || m.count(NackRxOther) != n || m.count(Retx) != 0 {
		t.Errorf("%d of %d counted, %d sent again:\n%+v\n%+v", m.count(NackRxOther), n, m.count(Retx), before, *p)
	}
	m.run(now + 1_500_000)
	if at := m.sentAt(0); len(at) != 2 || at[1]-at[0] != 1_000_000 {
		t.Errorf("sent at %v: the RTO has moved", at)
	}
}

// monotonous is a generator of which two numbers of three are the same.
type monotonous uint64

func (m *monotonous) Uint64() uint64 {
	*m++
	if *m%3 != 0 {
		return 77 << 32
	}
	return uint64(*m) << 32
}

// F11: a trimmed packet is sent again as soon as its NACK is there, with another entropy value.
func TestF11_TrimmedAtOnce(t *testing.T) {
	l := newLab(t, Config{})
	l.call(0, 1, func(now vt.Time) { // draws the same entropy value most of the time
		l.feps[0].PDS().Reset(now, rand.New(rand.NewPCG(1, 2)), rand.New(new(monotonous)))
	})
	l.exchange(10)
	list := l.watch()
	l.script = l.trimming(34, func(from int, u []byte) bool {
		r, err := wire.ParseRequest(u)
		return err == nil && from == 0 && !r.RETX() && r.PSN()%8 == 0
	})
	l.exchange(20 * 4096)
	sent, told := map[wire.PSN]passed{}, map[wire.PSN]vt.Time{}
	n := 0
	for _, p := range *list {
		if k, ok := p.nack(); ok {
			told[k.PSN()] = p.at
			if k.Code() != wire.NackTrimmed || p.in.EV != sent[k.PSN()].in.EV {
				t.Errorf("%v with EV %d for a packet with EV %d", k.Code(), p.in.EV, sent[k.PSN()].in.EV)
			}
		}
		if r, ok := p.request(); ok && r.RETX() {
			n++
			// The link takes 500 ns and a little, and a packet may wait for one or two that are being sent.
			if d := p.at.Sub(told[r.PSN()]); told[r.PSN()] == 0 || d > 800 || p.in.EV == sent[r.PSN()].in.EV {
				t.Errorf("sent again %v after the NACK left, with EV %d after EV %d", d, p.in.EV, sent[r.PSN()].in.EV)
			}
		} else if ok {
			sent[r.PSN()] = p
		}
	}
	if n < 2 || l.count(RetxTrim) != n || l.count(Retx) != n {
		t.Errorf("%d sent again, %d of %d for a trim", n, l.count(RetxTrim), l.count(Retx))
	}
}

// F12: a trimmed packet that had arrived before is acknowledged.
func TestF12_TrimmedDuplicate(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	r := req{flags: wire.ReqRETX, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 1000, n: 1000}
	s.sendCut(r, 34, 128, true)
	s.expect("1 ACK_CC cack 0 off 0 RETX DEFAULT_RESPONSE OK 0")
	r.psn = 1
	s.sendCut(r, 34, 128, true)
	s.expect("1 NACK TRIMMED psn 1")
}

// F13: of a trimmed packet nothing but its headers counts: neither lengths nor CRC, and SES does not see it.
func TestF13_TrimmedNotToSES(t *testing.T) {
	const headers = wire.EthLen + wire.IPv4Len + wire.UDPLen + 12
	for _, keep := range []int{headers, 64, 100, 128, 500, 1 << 20} {
		for _, fix := range []bool{false, true} {
			s := newStub(t, Config{})
			s.open()
			s.recv(2, 1000)
			before := s.feps[1].C
			s.sendCut(req{psn: 1, mid: 2, op: wire.OpTaggedSend, tag: 2, total: 1000, n: 1000}, 34, keep, fix)
			s.expect("1 NACK TRIMMED psn 1")
			after := s.feps[1].C
			for _, c := range []Counter{DataRx, DataRxBytes, MsgsRx, CRCBad, Malformed, RespErrTx} {
				if after[c] != before[c] {
					t.Errorf("%d bytes, length mended %v: counter %v rises by %d", keep, fix, c, after[c]-before[c])
				}
			}
			if p := s.target(); p.Rx.CACK != s.start || p.Rx.Max != s.start || s.feps[1].rx.n != 0 || after[Trimmed] != 1 {
				t.Errorf("%d bytes, length mended %v: %+v, %d messages begun", keep, fix, p.Rx, s.feps[1].rx.n)
			}
			s.request(req{psn: 1, flags: wire.ReqAR | wire.ReqRETX, mid: 2, op: wire.OpTaggedSend, tag: 2, total: 1000, n: 1000})
			s.expect("1 ACK_CC cack 1 off 0 RETX RESPONSE OK 1000")
		}
	}
}

// F14: a packet that was trimmed on the last link is refused with the code of its own and without a mark unless it had
// one. What congestion control makes of the code has tests there.
func TestF14_TrimmedOnLastHop(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	for i, ecn := range []uint8{wire.ECNECT0, wire.ECNCE} {
		s.ev = uint16(0x700 + i)
		s.sendCut(req{psn: int32(1 + i), mid: 2, op: wire.OpTaggedSend, tag: 2, total: 1000, n: 1000, ecn: ecn}, 36, 128, true)
		in, u := uet(s.raw[len(s.raw)-1])
		n, err := wire.ParseNack(u)
		if err != nil || n.Code() != wire.NackTrimmedLastHop || n.M() != (ecn == wire.ECNCE) || in.EV != s.ev {
			t.Errorf("ECN %d: %v, marked %v, EV %x: %v", ecn, n.Code(), n.M(), in.EV, err)
		}
	}
}

// F15: an ACK with data that was trimmed makes its request go again, and the data comes once.
func TestF15_TrimmedAckWithData(t *testing.T) {
	l := newLab(t, Config{MaxAckData: 5000, TrimmableAck: 1 << 10})
	mem, got := fill(4096, 3), make([]byte, 4096)
	key := l.eps[1].Register(mem)
	list := l.watch()
	data := func(from int, u []byte) bool {
		a, err := wire.ParseAck(u)
		return err == nil && from == 1 && a.Next() == wire.NextResponseData
	}
	l.script = l.trimming(34, nthOf(0, data))
	l.call(0, 1, func(now vt.Time) { _ = l.eps[0].Read(now, 1, got, key, 0, 9) })
	l.run(900_000)
	l.want(0, Completion{Kind: OpRead, Ctx: 9, Len: 4096})
	if !bytes.Equal(mem, got) || l.count(Retx) != 1 || l.count(RetxTrim) != 1 || len(nacksIn(*list)) != 0 || l.feps[1].C[ReadsRx] != 1 {
		t.Errorf("%d sent again, %d for a trim, %d NACKs, %d reads done", l.count(Retx), l.count(RetxTrim), len(nacksIn(*list)), l.feps[1].C[ReadsRx])
	}
	acks := 0
	for _, p := range *list {
		if data(p.from, p.u) {
			if acks++; p.in.DSCP != 10 {
				t.Errorf("an ACK with data in the class of DSCP %d, where no switch trims", p.in.DSCP)
			}
		}
	}
	all := requestsIn(*list, 0)
	if r, _ := all[len(all)-1].request(); len(all) != 2 || !r.RETX() || acks != 2 {
		t.Errorf("%d requests and %d ACKs with data", len(all), acks)
	}
}

// F16: one packet of 200 is lost, and sent again long before its RTO.
func TestF16_InferredLoss(t *testing.T) {
	for _, n := range []int{0, 7, 100, 198, 199} {
		l := newLab(t, Config{RTOInit: 5 * time.Second, MaxAckDelay: 250 * time.Microsecond})
		l.exchange(10)
		l.script = nth(n, fate{drop: true}, requests)
		why := RetxInfer
		if n > 140 {
			why = RetxProbe // too few packets come behind it
		}
		if d := l.transfer(200 * 4096); d > time.Millisecond || l.count(Retx) != 1 || l.count(RTO) != 0 || l.count(why) != 1 {
			t.Errorf("packet %d lost: took %v, %d sent again, %d RTOs", n, d, l.count(Retx), l.count(RTO))
		}
	}
}

// F17: packets that merely overtake each other are not taken for lost.
func TestF17_ReorderingIsNoLoss(t *testing.T) {
	const line = 86 // ns that a packet takes
	for _, by := range []int{1, 4, 16, 32} {
		l := newLab(t, Config{})
		i := 0
		l.script = func(from int, b []byte) (f fate) {
			if i++; i%7 == 0 && requests(from, firstUET(b)) {
				f.delay = time.Duration(by * line)
			}
			return f
		}
		l.transfer(2000 * 4096)
		if l.count(Retx) != 0 || l.count(DupRx) != 0 || l.count(RTO) != 0 {
			t.Errorf("every seventh packet late by %d: %d sent again", by, l.count(Retx))
		}
	}
}

// F18: of a packet that is known to have arrived, but not acknowledged, the source asks for the response.
func TestF18_AsksWhatArrived(t *testing.T) {
	m := newMute(t, Config{NoInfer: true, MaxAckData: -1})
	m.post(3 * 4096)
	first := m.sentAt(0)[0]
	m.ack(first+2000, -1, 0, 0b111) // PSN 0 is done, 1 and 2 have arrived; CACK stands still
	m.run(first + 1_500_000)
	var ctl []string
	for _, p := range *m.list {
		if c, err := wire.ParseCtrl(p.u); err == nil && wire.Prologue(p.u).Type() == wire.TypeCtrl {
			ctl = append(ctl, fmt.Sprint(c.Ctl(), " ", c.PSN().Diff(m.start), " ", c.AR()))
		}
	}
	if len(ctl) != 1 || ctl[0] != "ACK_REQUEST 1 true" || m.count(Retx) != 0 {
		t.Errorf("%d sent again, asked %q", m.count(Retx), ctl)
	}
	m.nack(m.nodes[0].Now()+1000, wire.NackPktNotRcvd, 1)
	m.run(m.nodes[0].Now() + 10_000)
	if n := len(m.sentAt(1)); n != 2 || m.count(RetxProbe) != 1 {
		t.Errorf("after PKT_NOT_RCVD it was sent %d times", n)
	}
}

// F19: the four answers to an ACK Request.
func TestF19_AckRequestAnswers(t *testing.T) {
	s := newStub(t, Config{AnswerDelay: 50 * time.Microsecond})
	key := s.eps[1].Register(make([]byte, 100))
	later := func() { s.now += 60_000; s.run(s.now) }
	s.recv(1, 10)
	s.request(req{flags: wire.ReqSYN, clear: -1, mid: 1, op: wire.OpTaggedSend, tag: 1, total: 10, n: 10})
	later()
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
	s.ctrl(wire.CtlAckRequest, 0, 0) // done: the default response
	s.expect("1 ACK_CC cack 0 off 0 DEFAULT_RESPONSE OK 0")
	s.request(req{psn: 1, clear: -1, mid: 2, op: wire.OpTaggedSend, tag: 9, total: 10, n: 10}) // no receive
	s.ctrl(wire.CtlAckRequest, 1, 0)
	s.expect("1 NACK RCVD_SES_PROCG psn 1")
	later()
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0")
	s.ctrl(wire.CtlAckRequest, 1, 0) // kept: the stored response
	s.expect("1 ACK_CC cack 0 off 1 req CLEAR RESPONSE NO_MATCH 0")
	s.ctrl(wire.CtlAckRequest, 2, 0)
	s.expect("1 NACK PKT_NOT_RCVD psn 2")
	s.send(0, func([]byte) []byte { // 16 bytes are read, which come in the ACK
		b := s.build(req{psn: 2, flags: wire.ReqAR, clear: -1, mid: 3, op: wire.OpRead, tag: key, total: 16})
		return b[:len(b)-wire.CRCLen]
	})
	later()
	s.expect("1 ACK_CC cack 1 off 1 req CLEAR RESPONSE_DATA")
	s.ctrl(wire.CtlAckRequest, 2, 0)
	s.expect("1 NACK ACK_WITH_DATA psn 2")
}

// F20: a Probe is answered with p and its opaque value, and takes no PSN.
func TestF20_Probe(t *testing.T) {
	s := newStub(t, Config{})
	s.open()
	s.recv(2, 10)
	for range 3 {
		before := s.target().Rx
		s.ctrl(wire.CtlProbe, 0, uint32(s.start)+1)
		a, err := wire.ParseAck(firstUET(s.raw[len(s.raw)-1]))
		if err != nil || !a.P() || a.ProbeOpaque() != 0xBEEF || a.CACK() != s.start || len(s.got) != 1 {
			t.Errorf("answer %q, p %v, opaque %x: %v", s.got, a.P(), a.ProbeOpaque(), err)
		}
		if s.target().Rx != before {
			t.Errorf("%+v, before the Probe %+v", s.target().Rx, before)
		}
		s.got = nil
	}
	s.request(req{psn: 1, flags: wire.ReqAR, mid: 2, op: wire.OpTaggedSend, tag: 2, total: 10, n: 10})
	s.expect("1 ACK_CC cack 1 off 0 RESPONSE OK 10")
}

// F21: while SES works, the source is told to wait, and waits for as long as it takes.
func TestF21_SlowSES(t *testing.T) {
	l := newLab(t, Config{AnswerDelay: 100 * time.Millisecond, MaxRTORetx: 2})
	list := l.watch()
	l.exchange(10)
	n := 0
	for _, p := range nacksIn(*list) {
		if k, _ := p.nack(); k.Code() == wire.NackRcvdSESProcg {
			n++
		} else {
			t.Errorf("NACK %v", k.Code())
		}
	}
	all := requestsIn(*list, 0)
	for i := range all[1:] {
		if d := all[i+1].at.Sub(all[i].at); d < time.Millisecond {
			t.Errorf("sent again after %v", d)
		}
	}
	if n < 10 || n != len(all)-1 || l.count(MsgsRx) != 1 || l.count(PDCFailed) != 0 {
		t.Errorf("%d requests, %d of them answered with RCVD_SES_PROCG, %d messages", len(all), n, l.count(MsgsRx))
	}
}

// sumMessages sends n messages of 8 bytes, a number each, to receives of which there are more than enough, and returns the sum of
// all that came: a message that came twice would count twice.
func (l *lab) sumMessages(n int) (sum uint64, came int) {
	bufs := make([][8]byte, n+100)
	for i := range bufs {
		_ = l.eps[1].Recv(0, bufs[i][:], uint64(i))
	}
	posted := 0
	fillUp := func(now vt.Time) {
		for ; posted < n && posted-len(l.got[0]) < 1000; posted++ {
			b := binary.BigEndian.AppendUint64(nil, uint64(posted)+1)
			if err := l.eps[0].Send(now, 1, b, uint64(posted)); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	l.call(0, 1, fillUp)
	for len(l.got[0]) < n && l.step(vt.Never) {
		if posted < n && posted-len(l.got[0]) < 500 {
			l.call(0, l.nodes[0].Now(), fillUp)
			l.step(vt.Never)
		}
	}
	for i := range bufs {
		sum += binary.BigEndian.Uint64(bufs[i][:])
	}
	return sum, len(l.got[1])
}

// lossy is a link that loses, repeats and delays.
func lossy(r *rand.Rand, loss, dup, slow float64) func(int, []byte) fate {
	return func(int, []byte) (f fate) {
		f.drop = r.Float64() < loss
		if r.Float64() < dup {
			f.dup = 1
		}
		if r.Float64() < slow {
			f.delay = time.Duration(r.IntN(20_000))
		}
		return f
	}
}

// F22: of 100 000 packets, over a link that loses 5 % of everything, repeats and reorders, each reaches SES once: the
// sum over half of them is right, and so is every byte of the rest.
func TestF22_ExactlyOnce(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 5_000
	}
	const seed = 22
	l := newLab(t, Config{PayloadMTU: 1024})
	l.script = lossy(rand.New(rand.NewPCG(seed, 0)), 0.05, 0.05, 0.3)
	sum, came := l.sumMessages(n)
	if want := uint64(n) * uint64(n+1) / 2; sum != want || came != n {
		t.Errorf("seed %d: the sum of %d messages is %d, want %d of %d", seed, came, sum, want, n)
	}
	mem, src := make([]byte, n*1024), fill(n*1024, seed)
	key := l.eps[1].Register(mem)
	l.got = [2][]Completion{}
	l.call(0, l.nodes[0].Now()+1, func(now vt.Time) { _ = l.eps[0].Write(now, 1, src, key, 0, 1) })
	for len(l.got[0]) == 0 && l.step(vt.Never) {
	}
	l.want(0, Completion{Kind: OpWrite, Ctx: 1, Len: len(src)})
	c := &l.feps[1].C
	t.Logf("seed %d: %d packets accepted, %d sent again, %d duplicates", seed, c[DataRx], l.count(Retx), c[DupRx])
	if !bytes.Equal(src, mem) || c[DataRx] != uint64(2*n) || c[DataRxBytes] != uint64(8*n+1024*n) || c[MsgsRx] != uint64(n+1) {
		t.Errorf("seed %d: %d packets and %d bytes accepted, %d messages", seed, c[DataRx], c[DataRxBytes], c[MsgsRx])
	}
	if c[DupRx] < uint64(n)/20 || l.count(Retx) < n/20 {
		t.Errorf("seed %d: %d duplicates, %d sent again: the link is not hostile", seed, c[DupRx], l.count(Retx))
	}
}

// F23: a damaged packet is dropped without a word, whatever it is, and made up for.
func TestF23_Damaged(t *testing.T) {
	for _, pick := range []func(int, []byte) bool{requests, acks} {
		l := newLab(t, Config{NoInfer: true})
		l.exchange(10)
		list := l.watch()
		l.script = nth(0, fate{flip: true}, pick)
		now := max(l.nodes[0].Now(), l.nodes[1].Now())
		l.call(1, now+1, func(now vt.Time) { _ = l.eps[1].TagRecv(now, -1, make([]byte, 100), 8, 1) })
		l.call(0, now+2, func(now vt.Time) { _ = l.eps[0].TagSend(now, 1, make([]byte, 100), 8, 2) })
		l.run(now + 500_000)
		if got := (*list)[len(*list)-1]; !pick(got.from, got.u) || l.count(CRCBad) != 1 {
			t.Errorf("%d packets damaged; the last packet is from %d", l.count(CRCBad), got.from)
		}
		l.run(now + 5_000_000)
		if l.count(Retx) != 1 || l.count(MsgsRx) != 2 || l.count(MsgsTx) != 2 || len(nacksIn(*list)) != 0 {
			t.Errorf("%d sent again, %d messages came", l.count(Retx), l.count(MsgsRx))
		}
	}
}

// F24: what a packet was refused or timed out is forgotten with it. The limits are low, and the places in the window
// are used many times.
func TestF24_CountersPerPSN(t *testing.T) {
	const seed = 24
	l := newLab(t, Config{NoInfer: true, PDCsPerKey: 1, MaxRTORetx: 4, PayloadMTU: 1024})
	l.script = lossy(rand.New(rand.NewPCG(seed, 0)), 0.05, 0, 0)
	l.transfer(20_000 * 1024)
	if p := l.source(); p == nil || l.count(PDCFailed) != 0 || l.count(PDCOpened) != 2 || l.count(RetxRTO) < 300 {
		t.Errorf("seed %d: %d PDCs failed of %d; %d timeouts", seed, l.count(PDCFailed), l.count(PDCOpened), l.count(RetxRTO))
	}
	m := newMute(t, Config{NackRetxTime: 100 * time.Microsecond, RTOInit: time.Second, PDCsPerKey: 1})
	m.post(10)
	for i := range int32(50) { // each packet is refused as often as it may be
		m.post(10) // the next one is under way meanwhile
		for range 5 {
			m.nack(m.nodes[0].Now()+1000, wire.NackNoResource, i)
			m.run(m.nodes[0].Now() + 102_000)
		}
		m.ack(m.nodes[0].Now()+1000, i, i, 0)
		m.run(m.nodes[0].Now() + 2000)
	}
	if m.count(PDCFailed) != 0 || m.count(RetxNack) != 250 || len(m.got[0]) != 50 {
		t.Errorf("%d PDCs failed, %d sent again, %d completions", m.count(PDCFailed), m.count(RetxNack), len(m.got[0]))
	}
}
