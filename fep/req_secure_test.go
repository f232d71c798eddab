package fep

import (
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// domain is a target's side of the security rules: it accepts what lies at or behind an expected start, or, with invent, only what
// it has invented itself.
type domain struct {
	expected wire.PSN
	invent   bool
	asked    int
	first    wire.PSN // of our own PDCs, if not 0
}

func (d *domain) Start(netip.Addr, uint32) (wire.PSN, bool) { return d.first, d.first != 0 }
func (d *domain) Accept(_ netip.Addr, _ uint32, start wire.PSN) (wire.PSN, bool) {
	d.asked++
	if d.invent {
		return wire.PSN(0x1000_0000 * d.asked), false
	}
	return d.expected, !start.Before(d.expected)
}
func (d *domain) Closed(_ netip.Addr, _ uint32, start, last wire.PSN) wire.PSN {
	if !start.Before(d.expected) {
		d.expected = last + 1
	}
	return d.expected
}
func (d *domain) Expected(_ netip.Addr, _ uint32, psn wire.PSN) { d.expected = psn }

// TestC17_SecureExpectedStart: with an expected start, a start there or behind is accepted; a lower one, as of an old open that is
// played again, is answered NEW_START_PSN with the expected one, and then only exactly that one is taken.
func TestC17_SecureExpectedStart(t *testing.T) {
	d := &domain{expected: 5000}
	s := newStub(t, Config{Secure: d, NewPDCTime: 50 * time.Millisecond})
	s.start = 5000
	open := func(id uint16) {
		s.from(0, 10, func(b []byte) []byte { return plain(b, s.syn(id, 0), 1, 1, 10) })
	}
	s.open() // at the expected start
	s.recv(1, 10)
	s.ctrl(wire.CtlCloseCommand, 1, 0)
	s.expect("1 ACK_CC cack 1 off 0 NONE")
	u := firstUET(s.raw[len(s.raw)-1])
	a, _ := wire.ParseAck(u)
	if a.Flags()&wire.AckEPSN == 0 || len(u) != len(a)+4 || u[len(u)-2] != 5002>>8 || u[len(u)-1] != 5002&0xFF {
		t.Errorf("closing ACK % x, want the next start, 5002", u)
	}
	s.now += 200_000_000 // until the PDC is forgotten
	s.run(s.now)
	open(stubPDC) // the old open again, byte by byte
	s.expect("1 NACK NEW_START_PSN psn 0")
	if n := s.lastNack(); n.Payload() != 5002 || n.SPDCID() == 0 || s.feps[1].C[MsgsRx] != 1 || s.target().State.String() != "pending" {
		t.Errorf("payload %d, SPDCID %x, %d messages, %v", n.Payload(), n.SPDCID(), s.feps[1].C[MsgsRx], s.target().State)
	}
	s.start = 6000 // would do for a new PDC, but this one waits for what it has demanded
	open(stubPDC)
	s.expect("1 NACK NEW_START_PSN psn 0")
	s.start = 5002
	open(stubPDC)
	s.expect("1 ACK_CC cack 0 off 0 RESPONSE OK 10")
	s.start = 70_000 // behind the expected one
	open(stubPDC + 1)
	s.expect("1 ACK_CC cack -1 off 1 req CLEAR RESPONSE NO_MATCH 0")
	if c := &s.feps[1].C; c[MsgsRx] != 2 || c[NewPDCTimeout] != 0 || c[PDCsOpen] != 2 {
		t.Errorf("%d messages, %d timeouts, %d PDCs", c[MsgsRx], c[NewPDCTimeout], c[PDCsOpen])
	}
}

// TestC18_SecureInventedStart: a target that invents starts always answers the first SYN with NEW_START_PSN; the initiator moves all
// its packets there, with the same offsets, and sends them again.
func TestC18_SecureInventedStart(t *testing.T) {
	d := &domain{invent: true}
	l := newLab(t, Config{Secure: d, IdleClose: 10 * time.Millisecond})
	for round := range 2 {
		old, moved := map[uint16]wire.PSN{}, map[uint16]wire.PSN{}
		nacks := map[wire.PSN]bool{}
		l.tap = func(_ vt.Time, from int, b []byte) {
			u := firstUET(b)
			if n, err := wire.ParseNack(u); err == nil {
				if n.Code() != wire.NackNewStartPSN {
					t.Errorf("NACK %v", n.Code())
				}
				nacks[wire.PSN(n.Payload())] = true
			}
			if r, err := wire.ParseRequest(u); err == nil && r.SYN() {
				if len(nacks) == 0 || !nacks[r.StartPSN()] {
					old[r.PSNOffset()] = r.PSN()
				} else {
					moved[r.PSNOffset()] = r.PSN()
				}
			}
		}
		l.exchange(5 * 4096)
		if len(old) != 5 || len(moved) != 5 || len(nacks) != 1 || d.asked != round+1 {
			t.Fatalf("round %d: offsets %v, then %v; demanded %v in %d PDCs", round, old, moved, nacks, d.asked)
		}
		for off, psn := range moved {
			if want := wire.PSN(0x1000_0000 * d.asked); psn-wire.PSN(off) != want || psn-old[off] != moved[0]-old[0] {
				t.Errorf("round %d: offset %d was psn %d and is now %d", round, off, old[off], psn)
			}
		}
		l.run(max(l.nodes[0].Now(), l.nodes[1].Now()) + vt.Time(10*time.Second)) // until it is closed
	}
	l.checkEmpty()
}

// TestC19_PendingExpires: a PDC that waits for its demanded start is forgotten after New_PDC_Time, whatever else comes.
func TestC19_PendingExpires(t *testing.T) {
	s := newStub(t, Config{Secure: &domain{expected: 9000}, NewPDCTime: 5 * time.Millisecond})
	begin := s.now + 1000
	for range 3 {
		s.from(0, 10, func(b []byte) []byte { return plain(b, s.syn(stubPDC, 0), 1, 1, 10) })
		s.expect("1 NACK NEW_START_PSN psn 0")
		s.now += 1_500_000
	}
	s.run(begin + 4_999_999)
	if c := &s.feps[1].C; c[PDCsOpen] != 1 || c[NewPDCTimeout] != 0 {
		t.Errorf("before: %d PDCs, %d timeouts", c[PDCsOpen], c[NewPDCTimeout])
	}
	s.run(begin + 5_000_001)
	if c := &s.feps[1].C; c[PDCsOpen] != 0 || c[NewPDCTimeout] != 1 || s.feps[1].m.Residue() != "" {
		t.Errorf("after: %d PDCs, %d timeouts, left %q", c[PDCsOpen], c[NewPDCTimeout], s.feps[1].m.Residue())
	}
}

// TestC20_PSNRange: a PDC is closed and replaced when it has used its range of PSNs; a message that was begun is finished on it.
func TestC20_PSNRange(t *testing.T) {
	const limit, packets = 1000, 70
	l := newLab(t, Config{PayloadMTU: 1024, Secure: fixed(1000), PSNLimit: limit, PDCsPerKey: 1})
	type use struct {
		high  uint32
		begun int // messages that began at or behind the limit
	}
	uses := map[uint16]*use{}
	l.tap = func(_ vt.Time, from int, b []byte) {
		u := firstUET(b)
		r, err := wire.ParseRequest(u)
		if err != nil || from != 0 {
			return
		}
		p := uses[r.SPDCID()]
		if p == nil {
			p = &use{}
			uses[r.SPDCID()] = p
		}
		n := uint32(r.PSN() - 1000)
		p.high = max(p.high, n)
		if s, _ := wire.ParseSESStd(u[len(r):]); s.Head().SOM() && n >= limit {
			p.begun++
		}
	}
	l.writes(62, packets*1024)
	for id, p := range uses {
		if p.begun != 0 || p.high >= limit+packets {
			t.Errorf("PDC %x: highest PSN %d, %d messages begun behind the limit", id, p.high, p.begun)
		}
	}
	if len(uses) != 5 || l.count(PDCClosed) != 2*4 { // 15 messages each, and the last PDC is not used up
		t.Errorf("%d PDCs, %d closed", len(uses), l.count(PDCClosed))
	}
	l.run(vt.Time(20 * time.Second))
	l.checkEmpty()
}
