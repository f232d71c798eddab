package pds

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Info describes a PDC in listings.
type Info struct {
	ID, PeerID uint16 // PeerID 0: not learned yet
	Peer       netip.Addr
	Job        uint32
	Mode       Mode
	TC         uint8
	Initiator  bool
	State      State
	InFlight   int64    // nominal bytes
	Window     int64    // nominal bytes
	Next       wire.PSN // initiator: next new PSN; target: highest PSN seen + 1
	CACK       wire.PSN // initiator: latest received; target: latest told
	Retx       uint64   // packets sent again

	Start    wire.PSN          // of both directions
	Tx       SourceInfo        // what we send: requests of an initiator, read data of a target
	Rx       DestInfo          // what we receive
	RTT      time.Duration     // latest sample, 0: none
	RTTMin   time.Duration     // least of all
	RetxBy   [NumCauses]uint32 // packets sent again, by cause
	NackTx   wire.NackCode     // latest NACK sent, 0: none
	NackRx   wire.NackCode     // latest NACK received
	Age      time.Duration     // since it was opened
	Idle     time.Duration     // since it was last used
	Locks    int               // operations that keep it open
	Messages int               // waiting or being sent

	End   End           // how it ended
	Ended vt.Time       // when
	Code  wire.NackCode // of the NACK that ended it, 0: none

	CC *cms.View // of the congestion control context, which PDCs may share; nil: a fixed window
	LB *lb.View  // of what is known of entropy values; nil: they are drawn without feedback

	CSIG        bool   // packets come with CSIG tags; of the latest,
	CSIGSignal  uint32 // the share of bandwidth that is left at the narrowest hop, in the steps of the tag's form
	CSIGLocator uint16 // and that hop

	gen uint64
}

// SourceInfo describes the half that sends.
type SourceInfo struct {
	Next, Clear, CACK wire.PSN
	MPRange           int32 // PSNs beyond CACK that may be sent
	Unacked           int32 // packets
	Backlog           int64 // bytes not cut into packets yet
	Recovering        bool
}

// DestInfo describes the half that receives.
type DestInfo struct {
	CACK, Max, Clear wire.PSN
	MPRange          int32
	OutOfOrder       int32 // packets above a gap
	Stored           int   // responses that wait to be cleared
}

// PDCs appends a description of every PDC to buf, in the order of their slots.
func (m *Manager) PDCs(now vt.Time, buf []Info) []Info {
	for _, p := range m.pdcs.slots {
		if p == nil {
			continue
		}
		i := p.info(now)
		if e := m.ended.find(p.gen); e != nil && p.state == Linger { // it only answers stragglers
			i.End, i.Ended, i.Code = e.End, e.Ended, e.Code
		}
		buf = append(buf, i)
	}
	return buf
}

func (p *PDC) info(now vt.Time) Info {
	s, d := &p.s, &p.d
	i := Info{ID: p.id, PeerID: p.peerID, Peer: p.peer, Job: p.job, Mode: p.mode, TC: p.tc, Initiator: p.initiator, State: p.state,
		InFlight: s.inflight, Window: p.window(), Start: s.start, RTT: time.Duration(s.rtt), RTTMin: time.Duration(s.rttMin),
		RetxBy: p.retx, NackTx: p.nackTx, NackRx: p.nackRx, Age: now.Sub(p.opened), Idle: now.Sub(p.lastUse), Locks: len(p.locks), gen: p.gen}
	i.Tx = SourceInfo{Next: s.next, Clear: s.clear, CACK: s.cack, MPRange: s.span, Unacked: s.unacked(), Backlog: s.backlog, Recovering: s.inRec}
	i.Rx = DestInfo{CACK: d.base - 1, Max: d.maxRx, Clear: d.clear, MPRange: mpRange(p.m.cfg.MPR), OutOfOrder: d.ooo, Stored: len(d.kept)}
	for msg := s.head; msg != nil; msg = msg.next {
		i.Messages++
	}
	if s.cur != nil {
		i.Messages++
	}
	for _, n := range p.retx {
		i.Retx += uint64(n)
	}
	if p.initiator {
		i.Next, i.CACK = s.next, s.cack
	} else {
		i.Next, i.CACK = d.maxRx+1, d.base-1
	}
	if p.cg != nil && p.cg.ctx != nil {
		v := p.cg.ctx.View()
		i.CC = &v
	}
	if p.cg != nil && p.cg.bal != nil {
		i.LB = &lb.View{}
		p.cg.bal.Look(i.LB)
	}
	i.CSIG, i.CSIGSignal, i.CSIGLocator = d.sig.seen, d.sig.signal, d.sig.locator
	return i
}

// Residue says what is left in a manager that should be empty, "" if nothing is: for tests.
func (m *Manager) Residue() string {
	var what string
	add := func(name string, n int) {
		if n != 0 {
			what += fmt.Sprintf(" %d %s", n, name)
		}
	}
	add("PDCs", int(m.C[PDCs]))
	add("SYN entries", len(m.bySYN))
	add("groups", len(m.groups))
	add("waiting messages", len(m.waiting))
	add("closing PDCs", m.closing)
	add("control packets", m.ctl.n+m.late.q.n+len(m.late.closes))
	add("timers", m.wheel.Len())
	add("ids", len(m.pdcs.free)-m.pdcs.n)
	add("contexts", len(m.cccs))
	add("contexts that may send", m.cccReady)
	add("RUDI packets", len(m.rudi.out))
	add("RUDI messages", len(m.rudi.msgs))
	return what
}
