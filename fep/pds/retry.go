package pds

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
)

// Packets that the target has refused for want of a resource are tried again and again, and it may take others that get it that room:
// the rest of a message that has the descriptor which they want, or what is lost below a response that is kept. If they always went
// first, in the order of PSNs, a small window would be theirs for as long as they are refused. So they take turns with all else that
// shares the window, one packet each (uet-pds-ses.md section 7, our choice), and with one another; an ordered PDC, of which the lowest
// packet was refused, as a whole.

// turns is whose turn it is in a window: a congestion control context's, or a PDC's own.
type turns struct {
	refused bool // what was refused goes first, since something else went last
	shut    bool // there was no room for something else: what was refused waits behind it
}

// turns is those of the window that the PDC uses.
func (p *PDC) turns() *turns {
	if p.cg != nil && p.cg.ctx != nil {
		return &p.cg.ctx.turns
	}
	return &p.s.turns
}

// took notes what has left.
func (t *turns) took(refused bool) {
	if t.refused = !refused; !refused {
		t.shut = false
	}
}

// stuckBehind says whether an ordered PDC can send nothing but what was refused, and what follows that.
func (p *PDC) stuckBehind() bool {
	return p.mode == ROD && p.s.nQueued > 0 && p.s.at(p.s.clear+1).flags&pktRefused != 0
}

// queueRetx has the PDC send what is to be sent again.
func (p *PDC) queueRetx() {
	s := &p.s
	if s.nQueued == 0 || p.state == Closed {
		return
	}
	s.turns.shut = false
	refused := s.nRefused
	if p.stuckBehind() {
		refused = s.nQueued
	}
	if refused > 0 && !s.inRefused {
		s.inRefused = true
		p.m.refusedq.push(p)
	}
	if refused < s.nQueued && !s.inRtx {
		s.inRtx = true
		p.m.rtxq.push(p)
	}
}

// nextRefused is the next packet that was refused and whose turn it is now, nil if there is none. Those whose turn it is not come at
// the end, after everything else was asked for.
func (m *Manager) nextRefused(now vt.Time, end bool) *link.Frame {
	for n := m.refusedq.n; n > 0; n-- {
		p := m.refusedq.pop()
		t := p.turns()
		if !end && !t.refused {
			m.refusedq.push(p)
			continue
		}
		p.s.inRefused = false
		if fr := p.nextRetx(now, true, end && t.shut); fr != nil {
			p.requeue()
			return fr
		}
	}
	return nil
}

// requeue follows a packet that was sent again.
func (p *PDC) requeue() {
	p.queueRetx()
	if p.mode == ROD && p.s.nQueued == 0 {
		p.queueSend()
	}
}

// queued counts k, whose flag pktQueued was just set, among those to be sent again.
func (s *source) queued(k *Packet, ordered bool) {
	if k.flags&pktRefused != 0 && !ordered {
		k.flags |= pktTurn
		s.nRefused++
	} else if s.nQueued == s.nRefused || k.PSN.Before(s.cursor) {
		s.cursor = k.PSN
	}
	s.nQueued++
}

func (s *source) unqueue(k *Packet) {
	if k.flags&pktQueued == 0 {
		return
	}
	if k.flags&pktTurn != 0 {
		s.nRefused--
		if k.PSN == s.turn {
			s.turn++
		}
	}
	k.flags &^= pktQueued | pktTurn
	s.nQueued--
}

// queuedPacket is the packet to be sent again next: the lowest one, or of those that were refused the one behind the latest.
func (s *source) queuedPacket(refused bool) *Packet {
	cursor, want := &s.cursor, pktQueued
	if refused {
		cursor, want = &s.turn, pktQueued|pktTurn
	}
	if !s.has(*cursor) {
		*cursor = s.clear + 1
	}
	for s.at(*cursor).flags&(pktQueued|pktTurn) != want {
		if *cursor++; *cursor == s.next {
			*cursor = s.clear + 1
		}
	}
	return s.at(*cursor)
}
