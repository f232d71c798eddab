package pds

import (
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// late is what of the control queue has to wait for the link's credits (UE 1.0.2 §5.2), while what is of other classes goes on.
type late struct {
	q      ctlQueue
	closes []*link.Frame // Close Commands and Requests
}

func (l *late) waits() bool { return l.q.n > 0 || len(l.closes) > 0 }

func (l *late) reset() {
	for _, fr := range l.closes {
		fr.Release()
	}
	*l = late{}
}

// long says which long answers a descriptor is for: they do not go with other control packets.
func (m *Manager) long(c *ctlMsg) (data, rudi bool) {
	return len(c.resp.Data) > m.cfg.TrimmableAck, c.kind == wire.TypeRUDIResp && len(c.resp.Data) > m.cfg.MaxAckData
}

// ctlClass is the traffic class of what a descriptor says.
func (m *Manager) ctlClass(c *ctlMsg) uint8 {
	switch data, rudi := m.long(c); {
	case rudi:
		return m.cfg.ClassUnmanaged
	case data:
		return m.cfg.Class
	}
	return m.cfg.ClassControl
}

// nextCtl builds the next packet of the control queue for which there are credits; nil if there is none.
func (m *Manager) nextCtl(now vt.Time) *link.Frame {
	if m.ctl.n == 0 && !m.late.waits() {
		return nil
	}
	short := m.port.Short(now)
	if fr := m.nextLate(now, short); fr != nil {
		return fr
	}
	for m.ctl.n > 0 {
		c := m.ctl.pop()
		if class := m.ctlClass(&c); short>>class&1 != 0 {
			if to := m.late.q.push(); to != nil {
				*to = c
			} else {
				m.C[CtlOverflow]++
			}
			m.port.Starved(now, 1<<class)
			continue
		}
		if fr := m.buildCtl(now, &c); fr != nil {
			return fr
		}
	}
	return nil
}

// nextLate gives the next packet that has waited for credits, if there are some.
func (m *Manager) nextLate(now vt.Time, short uint8) *link.Frame {
	l := &m.late
	if len(l.closes) > 0 && short>>m.cfg.ClassControl&1 == 0 {
		fr := l.closes[0]
		l.closes = append(l.closes[:0], l.closes[1:]...)
		return fr
	}
	for l.q.n > 0 && short>>m.ctlClass(&l.q.ring[l.q.head])&1 == 0 {
		c := l.q.pop()
		if fr := m.buildCtl(now, &c); fr != nil {
			return fr
		}
	}
	return nil
}

// afford keeps a Close back, and gives nil, while there are no credits for control packets.
func (m *Manager) afford(now vt.Time, fr *link.Frame) *link.Frame {
	if fr.Group == Local || m.port.Short(now)>>m.cfg.ClassControl&1 == 0 {
		return fr
	}
	m.late.closes = append(m.late.closes, fr)
	m.port.Starved(now, 1<<m.cfg.ClassControl)
	return nil
}

// starved tells the port which of some classes there is something in.
func (m *Manager) starved(now vt.Time, classes uint8) {
	var has uint8
	if m.rtxq.n > 0 || m.sendq.n > 0 || m.refusedq.n > 0 {
		has = 1 << m.cfg.Class
	}
	if m.rudi.busy() {
		has |= 1 << m.cfg.ClassUnmanaged
	}
	if has &= classes; has != 0 {
		m.port.Starved(now, has)
	}
}
