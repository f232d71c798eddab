package link

import (
	"encoding/binary"
	"fmt"

	"math/rand/v2"

	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// retry is link layer retry at a port: the state machines of package llr, and the frames that wait for an ACK. What has left for
// the line is a copy, since it is changed there and by the next node; the frame itself stays here, as it was.
type retry struct {
	cfg   llr.Config
	tx    *llr.TX
	rx    *llr.RX
	kept  []*Frame
	armed vt.Time // the earliest LinkTimer call that is under way, Never if none is
	held  bool    // the link is down, but not for so long yet that what waits is dropped
	since vt.Time // the scheduler is held up from then on, unarmed if it is not
	waits int64   // ns for which it was before, and that are not counted yet
}

// poison is what a poisoned FCS differs by from the right one.
const poison = wire.FCSPoison

// LLR returns the port's link layer retry parameters, nil if it has none.
func (p *Port) LLR() *llr.Config {
	if p.llr == nil || p.llr.tx.Stopped() {
		return nil
	}
	return &p.llr.cfg
}

// SetLLR turns link layer retry on with parameters that hold for both directions, or off, from now on. Both ends of a link are told at
// the same virtual time. Turned on, a port shakes hands first, unless a run begins right then; turned off, it first goes on with the frames
// that wait for an ACK.
func (p *Port) SetLLR(now vt.Time, cfg *llr.Config) error {
	if cfg == nil {
		if p.llr != nil {
			p.llr.tx.Stop(now)
			p.llr.rx.Stop()
			p.retried(now)
			p.Kick(now)
		}
		return nil
	}
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("port %d: %w", p.Index, err)
	}
	if is := p.LLR(); is != nil && *is == *cfg {
		return nil
	}
	if p.llr != nil {
		p.startOver(now) // a link that was held up is down now
	}
	p.makeLLR(*cfg)
	p.llr.tx.Reset(0, p.seed)
	p.llr.tx.Begin(now)
	p.llr.rx.Begin(now)
	if now == p.began { // a run begins: it is all the same which comes first
		p.llr.rx.Reset(0)
		p.signal(now)
	} else {
		p.llr.tx.PCS(now, p.lost())
		p.llr.tx.Start(now)
		p.seed++
		p.retried(now)
	}
	p.Kick(now)
	return nil
}

func (p *Port) makeLLR(cfg llr.Config) {
	x := &retry{cfg: cfg, armed: vt.Never, since: unarmed}
	x.tx = llr.NewTX(&x.cfg, p.C.LLR(), p.cfg.MTU+longestHeader)
	if was := p.llr; was != nil {
		x.armed, x.rx = was.armed, was.rx
		x.rx.Again(&x.cfg)
	} else {
		x.rx = llr.NewRX(&x.cfg, p.C.LLR())
	}
	x.kept = make([]*Frame, x.tx.Slots())
	p.llr = x
}

// longestHeader is what a frame has around an IP packet at most: Ethernet header, the longest tag, FCS.
const longestHeader = wire.EthLen + wire.CSIGWideLen + fcsLen

// resetLLR begins anew at the start of a run. Both ends do it at the same virtual time and the fabric was drained before, so they need
// not shake hands: they go on as after a handshake, and the first frames of a run are protected like all others. A link that has lost its
// signal flushes when its time is over, and shakes hands when it is back.
func (p *Port) resetLLR(rng *rand.Rand) {
	p.seed = rng.Uint64()
	x := p.llr
	if x == nil {
		return
	}
	off := p.forgets()
	p.release(x.tx.First(), x.tx.Outstanding())
	x.armed, x.held, x.since, x.waits = vt.Never, false, unarmed, 0
	if off {
		p.llr = nil
		for _, c := range []llr.Counter{llr.TxState, llr.RxState, llr.RingFrames, llr.RingPeak, llr.RoundTrip} {
			p.C.LLR()[c] = 0
		}
		return
	}
	x.tx.Reset(0, p.seed)
	x.rx.Reset(0)
}

// Begin ends Reset, at now: link layer retry follows the link's state, and all credits are there.
func (p *Port) Begin(now vt.Time) {
	p.began = now
	p.phy.begin(now, p.dmg.gen[kindCodeword])
	if p.cfg.CBFC != nil {
		p.resetCredits(now)
	}
	if p.llr != nil {
		p.llr.tx.Begin(now)
		p.llr.rx.Begin(now)
		p.signal(now)
	}
}

// lost says whether the port's PCS has no signal, in either direction: a far end that is not heard does not hear us.
func (p *Port) lost() bool { return p.imp.Down || p.rxDown }

// signal follows a change of the link's state.
func (p *Port) signal(now vt.Time) {
	p.forget(p.llr.tx.PCS(now, p.lost()))
	p.retried(now)
}

// holds says whether a link that goes down now keeps what waits for it, as it may be back soon.
func (p *Port) holds() bool {
	if p.llr == nil || p.llr.cfg.PCSLost == 0 {
		return false
	}
	s := p.llr.tx.State()
	return s == llr.Advance || s == llr.Replay
}

// forget releases frames that need not be kept any longer.
func (p *Port) forget(gone llr.Span) {
	if gone.N > 0 {
		p.release(gone.First, gone.N)
	}
}

func (p *Port) release(seq uint32, n int) {
	kept := p.llr.kept
	for range n {
		i := int(seq) & (len(kept) - 1)
		kept[i].Release()
		kept[i] = nil
		seq = (seq + 1) & llr.SeqMask
	}
}

// retried follows whatever the state machines did: it has them called again in time, and gives a link up that was down for too long.
func (p *Port) retried(now vt.Time) {
	x := p.llr
	if s := x.tx.State(); x.held && s != llr.Advance && s != llr.Replay {
		x.held = false
		p.goDown(now)
		if p.Changed != nil {
			p.Changed(now)
		}
	}
	if p.crd != nil {
		p.crd.flushed(now, p.C.LLR()[llr.TxFlushes])
	}
	if at := max(min(x.tx.Deadline(), x.rx.Deadline()), now); at < x.armed {
		x.armed = at
		p.host.LinkTimerAt(p.Index, at)
	}
}

// LinkTimer is the call that LinkTimerAt asks for.
func (p *Port) LinkTimer(now vt.Time) {
	if p.crd != nil {
		p.crd.timer(now)
	}
	x := p.llr
	if x == nil {
		return
	}
	if x.armed <= now {
		x.armed = vt.Never
	}
	p.forget(x.tx.Timer(now))
	x.rx.Timer(now)
	p.retried(now)
	p.Kick(now)
}

// nextLink gives what goes before the scheduler's frames: ordered sets, MAC control, what LLR sends once more, then a CC_Update, which LLR
// numbers like the data that it speaks of. wait says that the scheduler has to wait.
func (p *Port) nextLink(now vt.Time) (f *Frame, wait bool) {
	if x := p.llr; x != nil && (x.tx.WantsInit() || x.rx.Wants()) || p.crd != nil && p.crd.rx.Deadline(now) <= now {
		return p.orderedSets(now), false
	}
	if f := p.ctlq.pop(); f != nil {
		return f, false
	}
	race := false
	if p.crd != nil {
		p.crd.drained(now)
		if race = p.crd.race; race {
			if f = p.crd.consumed(now); f != nil {
				return f, false
			}
		}
	}
	if p.llr != nil {
		if f, wait := p.nextRetry(now); f != nil || wait {
			return f, wait
		}
	}
	if p.crd != nil && !race {
		f = p.crd.consumed(now)
	}
	if f != nil && p.llr != nil {
		f = p.protect(now, f)
	}
	return f, false
}

// nextRetry gives a frame that LLR sends once more. wait says that the scheduler has to wait.
func (p *Port) nextRetry(now vt.Time) (f *Frame, wait bool) {
	x := p.llr
	if seq, ok := x.tx.NextReplay(now); ok {
		f := x.kept[int(seq)&(len(x.kept)-1)].Copy()
		f.LLR = wire.LLRWord(wire.LLREligible, wire.LLRFlagReplay, seq)
		p.retried(now)
		return f, false
	}
	wait = x.tx.Held()
	switch {
	case wait && x.since == unarmed && (p.sched.n > 0 || !p.cfg.Queued):
		x.since = now
	case !wait && x.since != unarmed:
		x.waits += int64(now.Sub(x.since))
		x.since = unarmed
		p.C.LLR()[llr.TxBlocked] += uint64(x.waits / 1000)
		x.waits %= 1000
	}
	return nil, wait
}

// pendingRetry says whether LLR has something for the line.
func (p *Port) pendingRetry() bool {
	x := p.llr
	return x.tx.WantsInit() || x.rx.Wants() || x.tx.Replaying()
}

// orderedSets makes a frame of all the ordered sets that wait for the line.
func (p *Port) orderedSets(now vt.Time) *Frame {
	f := p.cfg.Pool.Get()
	f.B = wire.AppendCtlOSHeader(f.B, p.cfg.MAC)
	f.kind = kindSets
	if p.crd != nil {
		p.crd.freedUpdate(now, f)
	}
	x := p.llr
	if x == nil {
		return f
	}
	if x.tx.WantsInit() {
		seq, data := x.tx.Init(now)
		f.B = wire.AppendLLRInit(f.B, wire.CtlOSInit, seq, data)
	}
	if seq, data, ok := x.rx.Echo(); ok {
		f.B = wire.AppendLLRInit(f.B, wire.CtlOSInitEcho, seq, data)
	}
	if seq, nack, ok := x.rx.Answer(now); ok {
		kind := wire.CtlOSAck
		if nack {
			kind = wire.CtlOSNack
		}
		f.B = wire.AppendLLRSeq(f.B, kind, seq)
	}
	p.retried(now)
	return f
}

// protect numbers a frame that leaves now, if it is one that LLR protects; it returns what goes to the line, nil if the frame is to be dropped.
func (p *Port) protect(now vt.Time, f *Frame) *Frame {
	x := p.llr
	if !eligible(f.B) {
		return f
	}
	if !x.tx.Protects() {
		if x.tx.Discards() {
			p.C.LLR()[llr.TxDiscard]++
			p.Drop(DropDiscard, f)
			return nil
		}
		return f
	}
	g := f.Copy()
	seq := x.tx.Push(now, len(f.B)+fcsLen)
	x.kept[int(seq)&(len(x.kept)-1)] = f
	g.LLR = wire.LLRWord(wire.LLREligible, 0, seq)
	p.retried(now)
	return g
}

// eligible says whether LLR protects a frame: IP packets but no neighbour discovery, and CC_Updates. What is repeated anyhow goes without.
func eligible(b []byte) bool {
	const nextHeader, icmp6, firstND, lastND = 6, 58, 133, 137
	if len(b) < wire.EthLen {
		return false
	}
	switch wire.EtherType(binary.BigEndian.Uint16(b[12:])) {
	case wire.EtherIPv4, wire.EtherCSIG, wire.EtherCSIGWide:
		return true
	case wire.EtherIPv6:
		const l4 = wire.EthLen + wire.IPv6Len
		return len(b) <= l4 || b[wire.EthLen+nextHeader] != icmp6 || b[l4] < firstND || b[l4] > lastND
	case wire.EtherMACControl:
		return wire.IsMACControlExtension(b[wire.EthLen:])
	}
	return false
}

// setsPs is how long n bytes of ordered sets take: these stand in place of idle characters and bring nothing with them.
func setsPs(n int, rate int64) int64 { return (int64(n)*psBits + rate - 1) / rate }

// receiveLLR takes a frame at a port with LLR and says whether it goes on as any other.
func (p *Port) receiveLLR(now vt.Time, f *Frame) bool {
	x, c := p.llr, p.C.LLR()
	fcs := llr.Good
	if f.Damaged {
		switch wire.FCS(f.B) ^ f.FCS {
		case 0:
			f.Damaged = false
		case poison:
			fcs = llr.Poisoned
		default:
			fcs = llr.Bad
		}
	}
	deliver := fcs == llr.Good
	switch {
	case f.LLR>>28 == wire.LLREligible && x.rx.On():
		expected := f.LLR&llr.SeqMask == x.rx.Expected()
		x.rx.Resent(f.LLR&llr.SeqMask, f.LLR>>20&wire.LLRFlagReplay != 0)
		deliver = x.rx.Data(now, f.LLR&llr.SeqMask, fcs, len(f.B)+fcsLen)
		p.answered(now)
		if !deliver && !expected {
			f.Release()
			return false
		}
	case f.LLR == 0 && isSets(f.B):
		if fcs != llr.Good {
			c[llr.CtlBad]++
		} else {
			c[llr.RxCtl]++
			p.takeSets(now, f.B[wire.EthLen:])
		}
		f.Release()
		return false
	case deliver:
		c[llr.RxPlain]++
	default:
		c[llr.RxPlainBad]++
	}
	switch {
	case deliver:
	case fcs == llr.Poisoned:
		p.Drop(DropPoisoned, f)
	default:
		p.Drop(DropFCS, f)
	}
	return deliver
}

func isSets(b []byte) bool {
	return len(b) > wire.EthLen && wire.EtherType(binary.BigEndian.Uint16(b[12:])) == wire.EtherExperiment
}

// takeSets obeys the ordered sets of a frame. Those that are none are left aside.
func (p *Port) takeSets(now vt.Time, body []byte) {
	b, err := wire.ParseCtlOSBundle(body)
	if err != nil {
		return
	}
	x := p.llr
	for i := range b.Len() {
		s, err := wire.ParseCtlOS(b.At(i))
		if err != nil {
			continue
		}
		switch s.Type() {
		case wire.CtlOSAck, wire.CtlOSNack:
			p.forget(x.tx.Acked(now, s.Seq(), s.Type() == wire.CtlOSNack))
		case wire.CtlOSInit:
			x.rx.Init(now, s.Seq(), s.InitData())
		case wire.CtlOSInitEcho:
			x.tx.Echo(now, s.Seq(), s.InitData())
		case wire.CtlOSCFUpdate:
			if p.crd != nil {
				p.crd.tx.CFUpdate(now, s)
				p.crd.follow(now)
			}
		}
	}
	p.answered(now)
}

// answered sends what the state machines have come to want.
func (p *Port) answered(now vt.Time) {
	p.retried(now)
	p.Kick(now)
}

// ReInitLLR has a port shake hands anew: it is what ends FLUSH where LLR does not do so by itself. What waits for an ACK is given up.
func (p *Port) ReInitLLR(now vt.Time) {
	if p.LLR() == nil {
		return
	}
	p.startOver(now)
	p.Kick(now)
}

// startOver begins a handshake. What waits for an ACK is given up, and its credits have to be told.
func (p *Port) startOver(now vt.Time) {
	gone := p.llr.tx.Start(now)
	p.forget(gone)
	if gone.N > 0 && p.crd != nil {
		p.crd.force(now)
	}
	p.retried(now)
}
