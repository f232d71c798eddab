package fep

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// op is one operation of the property test: a message, and the receive or region it goes to.
type op struct {
	from     int
	kind     Kind
	src, dst []byte
	key      uint64
	done     [2]int // completions at the sender, at the receiver
}

// TestProperty sends messages of all kinds both ways through a link that loses, repeats, delays and damages packets:
// every byte is right, every completion comes exactly once, nothing is left.
func TestProperty(t *testing.T) {
	runs := 12
	if testing.Short() {
		runs = 3
	}
	for range runs {
		seed := rand.Uint64()
		property(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func property(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	cfg := Config{MPR: uint8(1 + r.IntN(8)), Window: int64(20_000 + r.IntN(300_000)), AckGenTrigger: 1 + r.IntN(32<<10),
		MaxAckData: r.IntN(5000), NoInfer: r.IntN(4) == 0, InferEV: r.IntN(4) == 0, RcvrInfer: r.IntN(2) * (20 + r.IntN(50)),
		MaxRUDI: 1 + r.IntN(100), MaxRTORetx: 8, MaxNackRetx: InfiniteNack}
	if r.IntN(4) == 0 {
		cfg.AnswerDelay = time.Duration(r.IntN(30_000))
	}
	if r.IntN(4) == 0 {
		cfg.TailLossTime = time.Duration(10_000 + r.IntN(1_000_000))
	}
	if r.IntN(2) == 0 {
		cfg.LB = LBFixed
	}
	most := 0.05
	if r.IntN(3) == 0 {
		most, cfg.MaxRTORetx, cfg.RTOMax = 0.3, InfiniteRTO, 20*time.Millisecond
	}
	l := newLab(t, cfg)
	loss, dup, slow := r.Float64()*most, r.Float64()*0.05, r.Float64()*0.3
	l.script = func(int, []byte) (f fate) {
		f.drop = r.Float64() < loss
		f.flip = r.Float64() < loss/4
		if r.Float64() < dup {
			f.dup = 1
		}
		if r.Float64() < slow {
			f.delay = time.Duration(r.IntN(20_000))
		}
		return f
	}
	ops := make([]*op, 60)
	for i := range ops {
		ops[i] = l.postOp(r, i)
	}
	l.run(vt.Time(10 * time.Second))
	for i := range l.eps {
		for _, c := range l.got[i] {
			o := ops[c.Ctx]
			if c.Err != nil || c.Len != len(o.src) {
				t.Errorf("op %d (%v): %+v", c.Ctx, o.kind, c)
			}
			if i == o.from && c.Kind != OpRecv && c.Kind != OpTagRecv {
				o.done[0]++
			} else {
				o.done[1]++
			}
		}
	}
	for i, o := range ops {
		recvs := 1
		if o.kind != OpTagSend {
			recvs = 0
		}
		if o.done != [2]int{1, recvs} {
			t.Errorf("op %d (%v, %d bytes): completions %v, want 1 and %d", i, o.kind, len(o.src), o.done, recvs)
		}
		if !bytes.Equal(o.src, o.dst) {
			t.Errorf("op %d (%v, %d bytes): contents differ", i, o.kind, len(o.src))
		}
	}
	l.checkEmpty()
}

// postOp schedules one operation at a random time; its receive is there before it.
func (l *lab) postOp(r *rand.Rand, i int) *op {
	n := r.IntN(100_000)
	if r.IntN(3) == 0 {
		n = r.IntN(10)
	}
	o := &op{from: r.IntN(2), kind: []Kind{OpTagSend, OpWrite, OpRead}[r.IntN(3)], src: fill(n, uint64(i)), dst: make([]byte, n)}
	me, you := l.eps[o.from], l.eps[1-o.from]
	remote := o.dst
	if o.kind == OpRead {
		remote = o.src
	}
	idempotent, ordered := r.IntN(4) == 0, r.IntN(3) == 0
	if idempotent {
		o.key = you.RegisterIdempotent(remote)
	} else {
		o.key = you.Register(remote)
	}
	check := func(err error) {
		if err != nil {
			l.t.Error(err)
		}
	}
	if o.kind == OpTagSend {
		l.call(1-o.from, 1, func(now vt.Time) { check(you.TagRecv(now, o.from, o.dst, uint64(i), uint64(i))) })
	}
	l.call(o.from, vt.Time(1_000_000+r.IntN(3_000_000)), func(now vt.Time) {
		me.SetOrdered(ordered)
		switch {
		case o.kind == OpTagSend:
			check(me.TagSend(now, 1-o.from, o.src, uint64(i), uint64(i)))
		case o.kind == OpWrite && idempotent:
			check(me.WriteIdempotent(now, 1-o.from, o.src, o.key, 0, uint64(i)))
		case o.kind == OpWrite:
			check(me.Write(now, 1-o.from, o.src, o.key, 0, uint64(i)))
		case idempotent:
			check(me.ReadIdempotent(now, 1-o.from, o.dst, o.key, 0, uint64(i)))
		default:
			check(me.Read(now, 1-o.from, o.dst, o.key, 0, uint64(i)))
		}
	})
	return o
}

// checkEmpty looks for anything that a finished run left behind.
func (l *lab) checkEmpty() {
	l.t.Helper()
	l.leaks()
	for i, f := range l.feps {
		if p := f.PDCs(nil); len(p) != 0 {
			l.t.Errorf("node %d: PDCs left: %+v", i, p)
		}
		if f.mids.n != 0 || f.C[GtdInUse] != 0 || f.C[PDCsOpen] != 0 || f.rx.n != 0 || len(f.reads) != 0 {
			l.t.Errorf("node %d: %d message IDs, %d responses, %d PDCs, %d messages, %d reads", i, f.mids.n, f.C[GtdInUse], f.C[PDCsOpen],
				f.rx.n, len(f.reads))
		}
		if r := f.m.Residue(); r != "" {
			l.t.Errorf("node %d: left in packet delivery: %s", i, r)
		}
		// At 30 % loss a target may forget a PDC before an ACK of its end comes through.
		if f.C[PDCFailed] != 0 || f.C[PDCExpired] != 0 && f.cfg.MaxRTORetx != InfiniteRTO {
			l.t.Errorf("node %d: %d PDCs failed, %d expired", i, f.C[PDCFailed], f.C[PDCExpired])
		}
	}
}

// FuzzArrive gives end points with open PDCs of both modes and both roles, with operations under way, arbitrary packets: they
// neither panic nor keep a frame.
func FuzzArrive(f *testing.F) {
	seed := newLab(f, Config{})
	seed.tap = func(_ vt.Time, from int, b []byte) {
		if _, u := uet(b); from == 0 || len(u) < 200 {
			f.Add(append([]byte(nil), u[:min(len(u), 200)]...), uint8(0), uint8(0))
		}
	}
	seed.exchange(9000)
	seed.busy()
	seed.run(vt.Time(3 * time.Second))
	for ctl := range uint8(11) {
		f.Add(wire.AppendCtrl(nil, &wire.CtrlFields{Ctl: wire.CtlType(ctl), Flags: wire.CtrlAR, SPDCID: 1}), uint8(1), ctl)
	}
	for _, c := range []wire.NackCode{wire.NackTrimmed, wire.NackRODOOO, wire.NackNewStartPSN, wire.NackClosing, wire.NackRcvdSESProcg, wire.NackTrimmedAck} {
		f.Add(wire.AppendNack(nil, &wire.NackFields{Type: wire.TypeNack, Code: c, SPDCID: 1, DPDCID: 1, Payload: 77}), uint8(2), uint8(1))
	}
	f.Add([]byte("no packet"), uint8(255), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, how, near uint8) {
		if len(b) > 4000 {
			return
		}
		l := newLab(t, Config{MPR: 1})
		l.exchange(5000)
		l.busy()
		l.run(max(l.nodes[0].Now(), l.nodes[1].Now()) + 2000)
		for i, n := range l.nodes {
			g := n.Pool.Get()
			if how == 255 {
				g.B = append(g.B, b...)
			} else {
				ff := wire.FrameFields{DstMAC: testMAC(i), SrcMAC: testMAC(1 - i), Src: testAddr(1 - i), Dst: testAddr(i), EV: 1,
					DSCP: []uint8{10, 34, 36, 46}[how>>4&3]}
				g.B = append(wire.AppendUDPFrame(g.B, &ff), b...)
				l.patch(i, g.B, how, near)
				g.B = wire.AppendUETCRC(g.B)
			}
			g.Due = max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
			l.deliver(i, g)
		}
		l.run(vt.Time(time.Hour))
		l.leaks()
	})
}

// busy posts operations of all modes and kinds, both ways; on some of them nobody answers in time.
func (l *lab) busy() {
	now := max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
	for i := range l.eps {
		key := l.eps[1-i].RegisterIdempotent(make([]byte, 20_000))
		l.call(i, now, func(now vt.Time) {
			for _, ordered := range []bool{false, true} {
				l.eps[i].SetOrdered(ordered)
				_ = l.eps[i].Write(now, 1-i, make([]byte, 20_000), key, 0, 0)
				_ = l.eps[i].Read(now, 1-i, make([]byte, 20_000), key, 0, 0)
				_ = l.eps[i].Read(now, 1-i, make([]byte, 10), key, 0, 0)
				_ = l.eps[i].TagSend(now, 1-i, make([]byte, 10), 99, 0)
			}
			_ = l.eps[i].ReadIdempotent(now, 1-i, make([]byte, 20_000), key, 0, 0)
			_ = l.eps[i].Datagram(now, 1-i, make([]byte, 10), 0)
		})
	}
}

// patch puts the ids of one of the open PDCs where a header may have them, and a PSN close to that PDC's, so that the fuzzer gets
// past the lookup.
func (l *lab) patch(to int, b []byte, how, near uint8) {
	const pds = wire.EthLen + wire.IPv4Len + wire.UDPLen
	all := l.feps[to].PDCs(nil)
	if len(all) == 0 || len(b) < pds+12 || how&8 != 0 {
		return
	}
	p := all[int(how&7)%len(all)]
	b[pds+8], b[pds+9], b[pds+10], b[pds+11] = byte(p.PeerID>>8), byte(p.PeerID), byte(p.ID>>8), byte(p.ID)
	if near != 0 {
		for _, base := range []wire.PSN{p.Tx.Next, p.Rx.Max} {
			binary.BigEndian.PutUint32(b[pds+4:], uint32(base)+uint32(int32(int8(near))))
			if near&1 != 0 {
				break
			}
		}
	}
}

// TestEcho: ICMP echo requests are answered, everything else that is not for UET is counted as a drop.
func TestEcho(t *testing.T) {
	l := newLab(t, Config{})
	var last []byte
	l.script = func(_ int, b []byte) fate { last = append([]byte(nil), b...); return fate{drop: true} }
	n := l.nodes[1]
	send := func(b []byte) {
		g := n.Pool.Get()
		g.B = append(g.B, b...)
		g.Due = n.Now() + 1
		l.deliver(1, g)
		l.run(g.Due + 1000)
	}
	echo := wire.AppendEth(nil, testMAC(1), testMAC(0), wire.EtherIPv4)
	ip := append([]byte{0x45, 0, 0, 32, 0, 0, 0, 0, 64, wire.ProtoICMP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2},
		8, 0, 0, 0, 0, 1, 0, 2, 'p', 'i', 'n', 'g')
	sum := wire.ICMPSum(ip)
	ip[22], ip[23] = byte(sum>>8), byte(sum)
	wire.IPv4(ip).SetChecksum()
	echo = append(echo, ip...)
	send(echo)
	p, err := wire.ParseIPv4(last[min(len(last), wire.EthLen):])
	if err != nil || p.Dst() != testAddr(0) || p.Payload()[0] != wire.ICMP4EchoReply || !bytes.HasSuffix(p, []byte("ping")) {
		t.Errorf("no echo reply: % x, %v", last, err)
	}
	if eth, _ := wire.ParseEth(last); eth.Dst() != testMAC(0) {
		t.Errorf("reply to %v", eth.Dst())
	}
	echo[wire.EthLen+19] = 9 // another address, with its checksum
	wire.IPv4(echo[wire.EthLen:]).SetChecksum()
	send(echo)
	send([]byte{1, 2, 3})
	if d := n.Ports[0].C[link.DropPacket]; d != 2 {
		t.Errorf("%d drops counted, want 2", d)
	}
	l.leaks()
}
