package pds

import (
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// few packets that were sent later and arrived make a loss thinkable; less never counts (uet-pds-ses.md 10.2).
const few = 5

// suspects is how many bytes in flight are probably lost, though not for sure: few later packets have arrived. Up to an eighth
// of the window they make room for others, so that a loss does not hold a window of one round trip up until it is sure.
func (s *source) suspects(most int64) (bytes int64) {
	for q, n := s.oldest, s.nFly; n > 0 && bytes < most; n-- {
		k := s.at(q)
		if int32(s.hiIdx-k.idx) < few {
			break
		}
		bytes += int64(k.size)
		q = k.next
	}
	return min(bytes, most)
}

// infer looks for packets that must be lost since enough that were sent after them have arrived. It goes by the order of
// sending and not of PSNs, and so finds lost retransmissions too; whatever the length of the window it looks at the
// oldest packet only.
func (p *PDC) infer(now vt.Time) {
	s, m := &p.s, p.m
	if m.cfg.NoInfer || p.mode == ROD {
		return
	}
	if s.nFly == 0 || int32(s.hiIdx-s.at(s.oldest).idx) < few {
		return
	}
	for thresh := int32(p.threshold()); s.nFly > 0; {
		k := s.at(s.oldest)
		if int32(s.hiIdx-k.idx) < thresh*int32(1+k.repairs) { // each time more patient: what repairs a loss may be slow itself
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
	p.again(now, k, now+p.rto(k.rtos), why, cms.Inferred)
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

// stale is how long before the answer to a Probe a packet must have left to count as lost.
func (s *source) stale() vt.Time { return max(3*s.rttMin, s.srtt+4*s.rttvar) }

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
		if p.mode == ROD {
			due = max(due, p.nextBack())
		}
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
	p.baseProbed(now, now-probed)
	wait := s.stale()
	s.probes = 0
	if p.m.cfg.NoInfer || s.nFly == 0 {
		return
	}
	if p.mode == ROD {
		if s.at(s.oldest).sent+wait <= now && p.nextBack() <= now {
			k := s.at(s.clear + 1)
			k.repairs = min(k.repairs+1, 100)
			p.rewind(now, k.PSN, CauseProbe)
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

// nextBack is when an ordered PDC may go back because of the answer to a Probe. Each time that it did for the lowest missing packet
// doubles the patience, so that the timeout of that packet, which it puts off, comes first in the end and counts. A packet that was
// refused for now waits for its own time.
func (p *PDC) nextBack() vt.Time {
	s := &p.s
	k := s.at(s.clear + 1)
	switch {
	case k.flags&pktWait != 0:
		return k.due
	case k.repairs == 0:
		return 0
	}
	return k.sent + s.stale()<<min(k.repairs, 24)
}

// sampleProbe is for PDCs that have no other round-trip time.
func (s *source) sampleProbe(rtt vt.Time) {
	if s.srtt == 0 {
		s.sample(rtt)
	}
}
