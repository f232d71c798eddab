package fep

import (
	"github.com/uetlab/uetlab/fep/amo"
	"github.com/uetlab/uetlab/fep/mr"
	"github.com/uetlab/uetlab/fep/pds"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// maxAtomic is how many bytes the operands of an atomic may have: one packet with the longest extension.
func (f *FEP) maxAtomic() int { return f.cfg.PayloadMTU - 36 }

// admitAtomic checks what a target would refuse anyway, that the buffers fit, and that the operands can be read.
func (ep *Endpoint) admitAtomic(op *Op) error {
	fetch := op.Kind != OpAtomic
	compares := op.Atomic.IsCompareSwap() || op.Atomic == wire.AtomicMSwap
	n := len(op.Buf.B)
	if op.Atomic == wire.AtomicRead {
		n = len(op.Result.B)
	}
	switch {
	case compares != (op.Kind == OpCompareAtomic), compares && len(op.Compare.B) != n, fetch && len(op.Result.B) != n:
		return ErrInvalid
	case op.Type.Size() == 0 || amo.Check(op.Atomic, op.Type, fetch, 0, n, ep.f.maxAtomic()) != wire.RCOK,
		amo.RequestLength(op.Atomic, op.Type, n/op.Type.Size()) > ep.f.maxAtomic():
		return ErrUnsupported
	case op.Buf.pull(0, len(op.Buf.B)) != nil, op.Compare.pull(0, len(op.Compare.B)) != nil:
		return ErrMemory
	}
	return nil
}

// planAtomic takes the operands: they are few, and so are copied.
func (m *txMsg) planAtomic(op *Op) {
	n := len(op.Buf.B)
	if op.Atomic == wire.AtomicRead {
		n = len(op.Result.B)
	}
	m.ext = &wire.AtomicFields{Op: op.Atomic, Type: op.Type}
	amo.SetExtension(m.ext, op.Buf.B, op.Compare.B)
	m.length = uint32(amo.RequestLength(op.Atomic, op.Type, n/op.Type.Size()))
	if op.Kind != OpAtomic {
		m.in, m.want = op.Result, uint32(n)
	}
	m.buf = Buffer{}
	if amo.PayloadLength(op.Atomic, int(m.length)) > 0 {
		m.buf.B = append(append(make([]byte, 0, m.length), op.Buf.B...), op.Compare.B...)
	}
}

// bare says that the packets of the message have no payload.
func (m *txMsg) bare() bool {
	return m.isRead() || m.ext != nil && amo.PayloadLength(m.ext.Op, int(m.length)) == 0
}

// extend appends the extension of an atomic.
func (m *txMsg) extend(b []byte) []byte {
	if m.op.IsRendezvous() {
		return m.coordinates(b)
	}
	if m.ext == nil {
		return b
	}
	return wire.AppendAtomic(b, m.ext)
}

// atomic executes a packet that asks for a computation (uet-pds-ses.md 16.3). It is done once: packet delivery hands over no packet
// twice, and repeats the old value with the response that it keeps.
func (f *FEP) atomic(now vt.Time, m *rxMsg, q *packet, resp *response, r *pds.Response) wire.ReturnCode {
	ext := wire.Atomic(q.ext)
	n := amo.TargetLength(ext.Op(), int(q.length))
	var old []byte
	fetch := q.op == wire.OpFetchingAtomic
	mem, ok := m.region.Memory()
	if !ok {
		return wire.RCBadMKey
	}
	at := int(m.offset)
	if rc := amo.Check(ext.Op(), ext.Type(), fetch, m.offset, n, f.cfg.PayloadMTU); rc != wire.RCOK {
		return rc
	}
	if mem.pull(at, n) != nil {
		return wire.RCHostUnsuccessCmpl
	}
	if fetch {
		old = f.keep(n)
	}
	var scratch [32]byte
	operand, compare := amo.Operands(ext, q.payload, &scratch)
	if _, rc := amo.Execute(ext.Op(), ext.Type(), m.offset, mem.B[at:at+n], operand, compare, old); rc != wire.RCOK {
		return rc
	}
	f.C[AtomicsRx]++
	if amo.Writes(ext.Op()) && mem.push(at, n) != nil {
		return wire.RCHostUnsuccessCmpl
	}
	resp.mod = uint32(n)
	if fetch {
		resp.gtd = true
		resp.data(r, q, old, uint32(n), 0)
	}
	return wire.RCOK
}

// atomicRights is what an atomic needs of a region.
func atomicRights(ext wire.Atomic, fetch bool) mr.Access {
	a := mr.RemoteAtomic
	if fetch {
		a |= mr.RemoteRead
	}
	if amo.Writes(ext.Op()) {
		a |= mr.RemoteWrite
	}
	return a
}

// keep gives memory for data that goes with an ACK: packet delivery reads it again whenever the response is repeated.
func (f *FEP) keep(n int) []byte {
	if n > len(f.kept) {
		f.kept = make([]byte, max(n, 4096))
	}
	b := f.kept[:n:n]
	f.kept = f.kept[n:]
	return b
}

// atomicTarget is how many bytes of the region a request is about.
func atomicTarget(q *packet) int { return amo.TargetLength(wire.Atomic(q.ext).Op(), int(q.length)) }
