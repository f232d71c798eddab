package pds

import (
	"time"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// threshold is how many packets have to arrive that were sent after one, before that one counts as lost: 1.5 windows, and 5 at
// least (uet-pds-ses.md 10.2).
func (m *Manager) threshold() uint32 {
	return uint32(max(5, 3*m.cfg.Window/2/int64(m.full)))
}

// reach measures how far packets overtake each other on their way, in packets by the order of sending: the most of the current
// stretch and of the one before. Where nothing is overtaken a gap is a loss, and there is no use in waiting for 1.5 windows.
type reach struct {
	now, last uint16
	end       uint32 // of the stretch, as a count of transmissions
}

// note takes a packet that arrives when one that was sent by packets later is known to have arrived.
func (r *reach) note(by int32) {
	if by > int32(r.now) {
		r.now = uint16(min(by, 0xFFFF))
	}
}

// far notes that a packet came although it counted as lost.
func (r *reach) far() { r.now = 0xFFFF }

// patience is the number of later packets that prove a loss now: twice of what was ever seen to overtake one lately, within 5 and
// the threshold. It begins at the threshold, and stretches are long.
func (p *PDC) patience() int32 {
	s, most := &p.s, p.m.thresh
	if r := &s.reach; int32(s.hiIdx-r.end) >= 0 {
		if r.end == 0 {
			r.now = 0xFFFF // nothing is known yet
		}
		r.last, r.now, r.end = r.now, 0, s.hiIdx+8*most
	}
	return int32(min(most, max(5, 2*uint32(max(s.reach.now, s.reach.last)))))
}

// infer looks for packets that must be lost since enough that were sent after them have arrived. It goes by the order of
// sending and not of PSNs, and so finds lost retransmissions too; whatever the length of the window it looks at the
// oldest packet only.
func (p *PDC) infer(now vt.Time) {
	s, m := &p.s, p.m
	if m.cfg.NoInfer || p.mode == ROD {
		return
	}
	most := p.patience()
	for s.nFly > 0 {
		k := s.at(s.oldest)
		if int32(s.hiIdx-k.idx) < most*int32(1+k.repairs) { // each time more patient: what repairs a loss may be slow itself
			return
		}
		p.lost(now, k, CauseInfer)
	}
}

// lost marks a packet that inference takes for lost.
func (p *PDC) lost(now vt.Time, k *Packet, why Cause) {
	s := &p.s
	if !s.inRec {
		s.inRec, s.recov = true, s.next-1
		p.m.C[Recoveries]++
	}
	k.repairs = min(k.repairs+1, 100)
	s.again(k, now+p.rto(k.rtos), why)
	p.queueRetx()
}

// sameEV counts k, which has arrived, for all packets that were sent before it with its entropy value: they went the same way
// and should have come first (uet-pds-ses.md 10.3).
func (p *PDC) sameEV(now vt.Time, k *Packet) {
	s := &p.s
	if s.nFly == 0 || k.flags&pktAgain != 0 && now-k.sent < s.rttMin {
		return
	}
	for q, n := s.oldest, s.nFly; n > 0; n-- {
		o := s.at(q)
		q = o.next
		if int32(k.idx-o.idx) <= 0 {
			return
		}
		if o.ev != k.ev {
			continue
		}
		if o.later++; int(o.later) >= p.m.cfg.EVMargin {
			p.lost(now, o, CauseEV)
		}
	}
}

// pto is how long the last packets of a burst may stay without an answer before a Probe asks for them: three round trips, or
// what the measured spread says; five for every further Probe.
func (s *source) pto() vt.Time {
	n := vt.Time(3)
	if s.probes > 0 {
		n = 5
	}
	return max(n*s.rttMin, s.srtt+4*s.rttvar, vt.Time(time.Microsecond)) << min(s.probes, 10)
}

// probing says whether silence is probed: not before there is a round-trip time to go by.
func (p *PDC) probing() bool {
	return !p.m.cfg.NoInfer && p.s.srtt != 0 && p.s.nFly > 0 && (p.state == Established || p.state == Quiesce)
}

func (p *PDC) armProbe(now vt.Time) {
	if p.probing() {
		p.arm(&p.rtx, p.s.act+p.s.pto())
	}
	if d := p.m.cfg.TailLossTime; d > 0 {
		p.arm(&p.rtx, now.Add(d))
	}
}

// tailTimers asks for packets that nobody speaks of any more, and says when to look again.
func (p *PDC) tailTimers(now vt.Time) vt.Time {
	s, c := &p.s, &p.m.cfg
	next := vt.Never
	if p.probing() {
		due := max(s.act, s.probed) + s.pto()
		if due <= now {
			p.m.C[TailProbes]++
			p.probe(now)
			s.probes++
			due = now + s.pto()
		}
		next = due
	}
	if c.TailLossTime > 0 && s.nFly > 0 && int(s.tails) < c.MaxTailLoss && p.peerID != 0 {
		due := s.act.Add(c.TailLossTime * time.Duration(s.tails+1))
		if due <= now && s.hasNew() {
			due = now.Add(c.TailLossTime)
		}
		if due <= now {
			s.tails++
			p.m.C[TailProbes]++
			p.control(wire.CtlAckRequest, wire.CtrlAR, s.newest, 0)
			due = now.Add(c.TailLossTime)
		}
		next = min(next, due)
	}
	return next
}

// onProbed takes the answer to a Probe: what was sent long before it, and is not in its bitmap, is lost.
func (p *PDC) onProbed(now vt.Time, a wire.Ack) {
	s := &p.s
	if a.ProbeOpaque() != s.opaque || s.probed == 0 {
		return
	}
	probed := s.probed
	s.probed = 0
	s.sampleProbe(now - probed)
	wait := max(3*s.rttMin, s.srtt+4*s.rttvar)
	s.probes = 0
	if p.m.cfg.NoInfer || s.nFly == 0 {
		return
	}
	if p.mode == ROD {
		if k := s.at(s.oldest); k.sent+wait <= now {
			p.rewind(now, s.clear+1, CauseProbe)
		}
		return
	}
	if !a.HasCC() {
		return
	}
	for q, n := s.oldest, s.nFly; n > 0; n-- {
		k := s.at(q)
		q = k.next
		if k.sent+wait > now || k.sent >= probed {
			return
		}
		if off := k.PSN.Diff(a.SACKBase()); off >= 0 && off < 64 {
			p.lost(now, k, CauseProbe)
		}
	}
}

// sampleProbe is for PDCs that have no other round-trip time.
func (s *source) sampleProbe(rtt vt.Time) {
	if s.srtt == 0 {
		s.sample(rtt)
	}
}
