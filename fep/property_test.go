package fep

import (
	"bytes"
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
	cfg := Config{MPR: uint8(1 + r.IntN(8)), Window: int64(20_000 + r.IntN(300_000)), AckGenTrigger: 1 + r.IntN(32<<10)}
	if r.IntN(2) == 0 {
		cfg.LB = LBFixed
	}
	l := newLab(t, cfg)
	loss, dup, slow := r.Float64()*0.05, r.Float64()*0.05, r.Float64()*0.3
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
			if c.Err != nil || c.Kind != OpWrite && c.Len != len(o.src) {
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
		if o.kind == OpWrite {
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
	o := &op{from: r.IntN(2), kind: []Kind{OpTagSend, OpWrite}[r.IntN(2)], src: fill(n, uint64(i)), dst: make([]byte, n)}
	me, you := l.eps[o.from], l.eps[1-o.from]
	o.key = you.Register(o.dst)
	check := func(err error) {
		if err != nil {
			l.t.Error(err)
		}
	}
	if o.kind == OpTagSend {
		l.call(1-o.from, 1, func(now vt.Time) { check(you.TagRecv(now, o.from, o.dst, uint64(i), uint64(i))) })
	}
	l.call(o.from, vt.Time(1_000_000+r.IntN(3_000_000)), func(now vt.Time) {
		if o.kind == OpWrite {
			check(me.Write(now, 1-o.from, o.src, o.key, 0, uint64(i)))
		} else {
			check(me.TagSend(now, 1-o.from, o.src, uint64(i), uint64(i)))
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
		if f.C[PDCFailed] != 0 || f.C[PDCExpired] != 0 {
			l.t.Errorf("node %d: %d PDCs failed, %d expired", i, f.C[PDCFailed], f.C[PDCExpired])
		}
	}
}

// FuzzArrive gives an end point with open PDCs arbitrary packets: it neither panics nor keeps a frame.
func FuzzArrive(f *testing.F) {
	seed := newLab(f, Config{})
	seed.tap = func(_ vt.Time, from int, b []byte) {
		if _, u := uet(b); from == 0 || len(u) < 200 {
			f.Add(append([]byte(nil), u[:min(len(u), 200)]...), false)
		}
	}
	seed.exchange(9000)
	f.Add([]byte("no packet"), true)
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		if len(b) > 4000 {
			return
		}
		l := newLab(t, Config{})
		l.eps[1].Register(make([]byte, 100))
		l.exchange(5000)
		for i, n := range l.nodes {
			g := n.Pool.Get()
			if whole {
				g.B = append(g.B, b...)
			} else {
				ff := wire.FrameFields{DstMAC: testMAC(i), SrcMAC: testMAC(1 - i), Src: testAddr(1 - i), Dst: testAddr(i), EV: 1}
				g.B = append(wire.AppendUDPFrame(g.B, &ff), b...)
				l.patchIDs(i, g.B)
				g.B = wire.AppendUETCRC(g.B)
			}
			g.Due = max(l.nodes[0].Now(), l.nodes[1].Now()) + 1
			n.Deliver(0, g)
		}
		l.run(vt.Time(time.Hour))
		l.leaks()
	})
}

// patchIDs puts the ids of the open PDC where a header may have its dpdcid, so that the fuzzer gets past the lookup.
func (l *lab) patchIDs(to int, b []byte) {
	const pds = wire.EthLen + wire.IPv4Len + wire.UDPLen
	p := l.role(to, to == 0)
	if p == nil || len(b) < pds+12 {
		return
	}
	b[pds+8], b[pds+9], b[pds+10], b[pds+11] = byte(p.PeerID>>8), byte(p.PeerID), byte(p.ID>>8), byte(p.ID)
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
		n.Deliver(0, g)
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
