package fep

import (
	"encoding/binary"

	"github.com/uetlab/uetlab/fep/match"
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// On a pair of AI Base there are no messages that come before their receive (uet-pds-ses.md 15.1): a receive tells its source where to
// write, by a SEND of one packet; a send waits for that and writes, with completion data if the message needs no other word, else with
// a SEND behind it. What these say, in controlLen bytes, big-endian:
//
//	0  1  what
//	1  1  space of the receive
//	2  2  resource index of the SEND space of the endpoint that it is for
//	4  4  the receive, as its owner calls it
//	8  8  tag; of controlDone: header data
//	16 8  memory key
//	24 8  offset
//	32 8  bytes of the buffer; of controlDone: of the message
//	40 8  flags: 1 there is header data
const controlLen = 48

// controlRI is the resource index of such SENDs, at every process.
const controlRI = 0xFFE

// What a control message says.
const (
	controlRecv      = 1 // there is a receive
	controlWithdrawn = 2 // not any more
	controlDone      = 3 // the message is written
)

// mostNotices is how many receives of all its peers an endpoint keeps in mind.
const mostNotices = 4096

type control struct {
	what             byte
	space            space
	ri               uint16
	id               uint32
	tag, key, off, n uint64
	data             bool
}

func (c *control) append(b []byte) []byte {
	flags := uint64(0)
	if c.data {
		flags = 1
	}
	b = append(b, c.what, byte(c.space))
	b = binary.BigEndian.AppendUint16(b, c.ri)
	b = binary.BigEndian.AppendUint32(b, c.id)
	for _, v := range [...]uint64{c.tag, c.key, c.off, c.n, flags} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func parseControl(b []byte) (c control, ok bool) {
	if len(b) != controlLen || b[0] < controlRecv || b[0] > controlDone || space(b[1]) != spaceSend && space(b[1]) != spaceTagged {
		return c, false
	}
	be := binary.BigEndian
	return control{b[0], space(b[1]), be.Uint16(b[2:]), be.Uint32(b[4:]), be.Uint64(b[8:]), be.Uint64(b[16:]), be.Uint64(b[24:]),
		be.Uint64(b[32:]), be.Uint64(b[40:])&1 != 0}, true
}

// drivenEnd is an endpoint's part in such exchanges.
type drivenEnd struct {
	notices                        [numSpaces]*match.Posted[*notice]
	sends                          [numSpaces]*match.Unexpected[*txMsg]
	chain[drivenRecv, *drivenRecv] // receives, in the order of posting
}

// notice is a receive of a peer that no send has taken yet. Its source is the peer's index in the address vector.
type notice struct {
	match.Recv[*notice]
	control
}

// drivenSend is what a send waits with, and for.
type drivenSend struct {
	match.Msg[*txMsg]
	s      space
	to     *peer
	tag    uint64
	buf    Buffer
	length uint32 // of the message
	flags  Flags
	data   uint64
	n      *notice // nil: it waits
	ending bool    // all is written
}

// spaces makes the queues of a space.
func (e *drivenEnd) spaces(f *FEP, s space) (*match.Posted[*notice], *match.Unexpected[*txMsg]) {
	if e.notices[s] == nil {
		seed := f.node.Rand("fep-match-base").Uint64()
		e.notices[s], e.sends[s] = match.NewPosted[*notice](seed), match.NewUnexpected[*txMsg](seed)
	}
	return e.notices[s], e.sends[s]
}

// withdraw takes a send out that waits.
func (e *drivenEnd) withdraw(w *drivenSend) {
	if q := e.sends[w.s]; q != nil {
		q.Remove(&w.Msg)
	}
	w.buf = Buffer{}
}

// controlOf is where control messages for a peer go.
func controlOf(p *peer) *peer {
	if p.control == nil {
		c := *p
		c.ri[spaceSend], c.small, c.streams = controlRI, false, [numSpaces]*stream{}
		p.control = &c
	}
	return p.control
}

// tell sends a control message.
func (ep *Endpoint) tell(now vt.Time, to *peer, c *control, by owner) *txMsg {
	m := ep.errand(now, controlOf(to), wire.OpSend, ep.job, by)
	c.ri = to.ri[spaceSend]
	m.kind, m.early.notice = OpSend, true
	m.inject = c.append(m.inject[:0])
	m.buf, m.length = Buffer{B: m.inject}, controlLen
	if ep.ordered() { // receives are to be taken in the order of posting, also if the peer refuses some for now
		m.Mode = pds.ROD
		ep.open.add(m)
		m.to.streamTo(ep.f, spaceSend).enter(now, m)
		return m
	}
	m.begin(now)
	return m
}

// await begins a send: it takes the oldest receive that the peer has told of, or waits for one.
func (m *txMsg) await(now vt.Time) {
	w := m.early.wait
	w.V, w.s, w.to = m, spaceOf(m.op), m.to
	w.tag, w.buf, w.length, w.flags, w.data = m.match, m.buf, m.length, m.flags, m.data
	if w.s == spaceTagged {
		w.Tag = w.tag
	}
	w.From = uint32(m.dst)
	m.seek(now)
}

// seek takes a receive or waits for one.
func (m *txMsg) seek(now vt.Time) {
	ep, w := m.ep, m.early.wait
	notices, sends := ep.base.spaces(ep.f, w.s)
	if n := notices.Find(w.From, w.Tag); n != nil {
		notices.Remove(n)
		m.drive(now, n.V)
		return
	}
	m.state, m.last = txAwaits, now
	sends.Add(&w.Msg)
	ep.f.armSweep(now)
}

// drive writes the message to where a receive wants it.
func (m *txMsg) drive(now vt.Time, n *notice) {
	w := m.early.wait
	w.n = n
	m.op, m.match, m.offset, m.data = wire.OpWrite, n.key, n.off, 0
	m.length = uint32(min(uint64(w.length), n.n))
	m.buf = w.buf.part(0, int(m.length))
	m.flags = w.flags | FlagData
	if !w.alone() {
		m.flags &^= FlagData
	}
	m.submitSoon(now)
}

// alone says that the write says all: completion data can only tell that it is done.
func (w *drivenSend) alone() bool { return w.flags&FlagData == 0 && uint64(w.length) <= w.n.n }

// driveOn says of a message that is written, and acknowledged, what the write could not.
func (m *txMsg) driveOn(now vt.Time) bool {
	w := m.early.wait
	if w.ending || w.alone() {
		return false
	}
	w.ending = true
	m.freeID()
	c := control{what: controlDone, space: w.s, ri: w.to.ri[spaceSend], id: w.n.id, tag: w.data, n: uint64(w.length), data: w.flags&FlagData != 0}
	m.op, m.to, m.flags, m.match, m.offset = wire.OpSend, controlOf(w.to), 0, 0, 0
	b := c.append(nil)
	m.buf, m.length = Buffer{B: b}, controlLen
	m.submitSoon(now)
	return true
}

// awaitsAnew says that the receive was taken back before the write came: the send waits for another one.
func (m *txMsg) awaitsAnew(now vt.Time) bool {
	w := m.early.wait
	if w == nil || w.ending || m.verdict != wire.RCBadMKey {
		return false
	}
	m.freeID()
	m.verdict, m.op, w.n = wire.RCNull, kindOps[m.kind], nil
	m.seek(now)
	return true
}

// drivenRecv is a receive that has told its source where to write.
type drivenRecv struct {
	ep     *Endpoint
	to     *peer
	op     Op
	s      space
	id     uint32
	region *region
	in     *rxMsg // the write under way
	whole  bool   // all is written, and word of it is missing
	n      int    // bytes written
	notice *txMsg // under way
	posted vt.Time
	last   vt.Time
	links[drivenRecv]
}

// drives says that a receive has to tell its source.
func (ep *Endpoint) drives(op *Op) bool {
	if op.Peer == AnySource {
		return op.Kind == OpTagRecv && ep.profiles == AIBase
	}
	return op.Peer >= 0 && op.Peer < len(ep.av) && ep.av[op.Peer] != nil && ep.av[op.Peer].profile == AIBase
}

// postDriven posts a receive and tells its source. It fails with ErrSource, ErrWildcard, ErrAgain or an error of package mr.
func (ep *Endpoint) postDriven(now vt.Time, op *Op) error {
	switch {
	case op.Peer == AnySource || op.Flags&FlagMultiRecv != 0:
		return ErrSource
	case op.Ignore != 0:
		return ErrWildcard
	case ep.f.mids.n >= maxMids:
		return ErrAgain
	}
	d := &drivenRecv{ep: ep, to: ep.av[op.Peer], op: *op, s: spaceTagged, posted: now, last: now}
	if op.Kind == OpRecv {
		d.s = spaceSend
	}
	if d.id = ep.f.driven.add(d); d.id == 0 {
		return ErrAgain
	}
	var err error
	d.region, err = ep.openFor(mr.Config{Size: uint64(len(op.Buf.B)), Access: mr.RemoteWrite}, 1, d.id,
		&registered{Buffer: op.Buf, only: d.to, driven: d})
	if err != nil {
		ep.f.driven.remove(d.id)
		return err
	}
	ep.base.add(d)
	ep.f.C[NoticesTx]++
	d.notice = ep.tell(now, d.to, &control{what: controlRecv, space: d.s, id: d.id, tag: op.Tag, key: d.region.Key(), n: uint64(len(op.Buf.B))}, d)
	return nil
}

// begin gives the receive the write that fills it; false if it has one.
func (d *drivenRecv) begin(m *rxMsg) bool {
	if d.in != nil || d.whole {
		return false
	}
	d.in, m.driven = m, d
	return true
}

// written notes that a write is complete.
func (d *drivenRecv) written(now vt.Time, m *rxMsg) {
	m.driven, d.in = nil, nil
	d.n, d.last = int(m.length), now
	if m.hd {
		d.end(now, nil)
		return
	}
	d.whole = true
	d.ep.f.armSweep(now)
}

// end completes the receive.
func (d *drivenRecv) end(now vt.Time, err error) {
	c := Completion{Len: d.n, Err: err}
	if err != nil {
		c.Len = 0
	}
	d.complete(now, &c)
}

func (d *drivenRecv) complete(now vt.Time, c *Completion) {
	f := d.ep.f
	if d.in != nil {
		d.in.driven, d.in = nil, nil
	}
	if d.notice != nil {
		d.notice.early.owner, d.notice = nil, nil
	}
	d.ep.base.remove(d)
	f.driven.remove(d.id)
	_ = d.ep.Deregister(d.region.Key()) // fails if the endpoint has just taken it back
	if c.Err != nil {
		f.C[MsgsErr]++
	}
	c.Kind, c.Ctx, c.Tag, c.Src, c.Posted, c.Acked = d.op.Kind, d.op.Ctx, d.op.Tag, d.op.Peer, d.posted, now
	d.op.Buf = Buffer{}
	d.ep.deliver(now, *c)
}

// ended implements owner: the source was told, or could not be.
func (d *drivenRecv) ended(now vt.Time, _ *txMsg, err error) {
	d.notice = nil
	if err != nil && d.in == nil && !d.whole {
		d.end(now, err)
	}
}

// cancelDriven takes back the oldest receive with this Ctx into which nothing was written yet.
func (ep *Endpoint) cancelDriven(now vt.Time, ctx uint64) bool {
	for d := ep.base.head; d != nil; d = d.next {
		if d.op.Ctx == ctx && d.in == nil && !d.whole {
			to, c := d.to, control{what: controlWithdrawn, space: d.s, id: d.id}
			d.end(now, ErrCancelled)
			ep.tell(now, to, &c, nil)
			return true
		}
	}
	return false
}

// closeDriven ends all receives.
func (ep *Endpoint) closeDriven(now vt.Time) {
	for d := ep.base.head; d != nil; d = ep.base.head {
		d.end(now, ErrClosed)
	}
	ep.base = drivenEnd{}
}

// resetDriven forgets everything.
func (ep *Endpoint) resetDriven() {
	for d := ep.base.head; d != nil; d = d.next {
		_ = ep.Deregister(d.region.Key())
	}
	ep.base = drivenEnd{}
}

// sweepDriven gives up receives that were written, but the sender has not said so.
func (f *FEP) sweepDriven(now vt.Time, late func(vt.Time) bool) {
	for _, ep := range f.dir.list {
		for d := ep.base.head; d != nil; {
			next := d.next
			if d.whole && late(d.last) {
				d.end(now, ErrAborted)
			}
			d = next
		}
	}
}

// control says that the packet is a control message.
func (q *packet) control() bool {
	return q.op == wire.OpSend && q.std != nil && q.head.ResourceIndex() == controlRI
}

// admitControl tests that the process takes control messages. Endpoints of it have the resource index in common.
func admitControl(ep *Endpoint, q *packet) wire.ReturnCode {
	switch {
	case ep.profiles&AIBase == 0:
		return wire.RCBadIndex
	case !q.head.SOM() || !q.head.EOM():
		return wire.RCOpViolation
	}
	return wire.RCOK
}

// control does what a control message says.
func (f *FEP) control(now vt.Time, m *rxMsg, q *packet) wire.ReturnCode {
	m.room = int(q.length)
	c, ok := parseControl(q.payload)
	if !ok {
		return wire.RCOpViolation
	}
	ep := f.dir.sibling(m.ep, c.ri)
	if ep == nil {
		return wire.RCBadIndex
	}
	if c.what == controlDone {
		return f.driveDone(now, ep, &c, q)
	}
	from := ep.source(q)
	if from < 0 {
		return wire.RCNoMatch // it may be in the address vector a little later
	}
	notices, sends := ep.base.spaces(f, c.space)
	if c.what == controlWithdrawn {
		for r := notices.First(); r != nil; r = notices.Next(r) {
			if r.V.id == c.id && r.From == uint32(from) {
				notices.Remove(r)
				break
			}
		}
		return wire.RCOK
	}
	if notices.Len() >= mostNotices {
		return wire.RCNoMatch
	}
	n := &notice{control: c}
	n.V, n.From = n, uint32(from)
	if c.space == spaceTagged {
		n.Tag = c.tag
	}
	f.C[NoticesRx]++
	if w := sends.Find(n.Tag, 0, n.From, false); w != nil {
		sends.Remove(w)
		w.V.drive(now, n)
		return wire.RCOK
	}
	notices.Post(&n.Recv)
	return wire.RCOK
}

// driveDone takes the word that a message is written.
func (f *FEP) driveDone(now vt.Time, ep *Endpoint, c *control, q *packet) wire.ReturnCode {
	d, ok := f.driven.get(c.id)
	if !ok || d.ep != ep || d.to.addr != q.src || d.to.initiator != q.initiator {
		return wire.RCCancelled
	}
	if !d.whole {
		return wire.RCOpViolation
	}
	done := Completion{Len: d.n}
	if c.n > uint64(d.n) {
		done.Err = ErrTruncated
	}
	if c.data {
		done.Flags, done.Data = FlagData, c.tag
	}
	d.complete(now, &done)
	return wire.RCOK
}

// sibling is the endpoint of the same process with a resource index of the SEND space, nil if there is none.
func (d *directory) sibling(ep *Endpoint, ri uint16) *Endpoint {
	for _, e := range d.procs[d.key(ep)] {
		if !e.closed && e.ri[spaceSend] == ri {
			return e
		}
	}
	return nil
}
