package switchd

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/wire"
)

const gig = 1_000_000_000

// kinds are the four shapes of a UET packet.
var kinds = []pkt{{}, {v6: true}, {native: true}, {v6: true, native: true}}

func (p pkt) String() string { return fmt.Sprintf("v6=%v native=%v", p.v6, p.native) }

// overfill sends 40 packets of 4 kB into the 100 kB queue of port 1, which is slow, and returns what was trimmed. Port 1 leads to a switch.
func overfill(t *testing.T, set Settings, p pkt) (*rig, []*link.Frame) {
	t.Helper()
	r := newRig(t, set, 400*gig, gig)
	p.to, p.size, p.dscp = 1, 4000, dscpData
	r.send(40, p)
	r.drain()
	frames := r.got(1)
	if len(frames) != 40 {
		t.Fatalf("%v: %d frames left, want 40", p, len(frames))
	}
	return r, ofDSCP(frames, dscpTrimmed)
}

// TRIM-01: admission failure of a TRIMMABLE packet gives a trimmed packet of the configured size.
func TestTRIM01_TrimmedToSize(t *testing.T) {
	for _, kind := range kinds {
		for _, size := range []int{100, 128, 256} {
			set := plan()
			set.Trim.Size = size
			r, cut := overfill(t, set, kind)
			if len(cut) != 14 { // 25 wait and one is on the line
				t.Errorf("%v: %d trimmed, want 14", kind, len(cut))
			}
			for _, f := range cut {
				if len(f.B) != size {
					t.Fatalf("%v: %d bytes, want %d", kind, len(f.B), size)
				}
			}
			if n := r.Ports[1].C[link.Trimmed]; n != 14 || r.stat(1, 1, link.QTrim) != 14 {
				t.Errorf("%v: counted %d and %d", kind, n, r.stat(1, 1, link.QTrim))
			}
		}
	}
}

// TRIM-02: IPv4 total length and checksum are right; UDP length and checksum stay.
func TestTRIM02_IPv4LengthAndChecksum(t *testing.T) {
	set := plan()
	set.Trim.Size = 128
	r, cut := overfill(t, set, pkt{ecn: wire.ECNECT0})
	full := r.frame(pkt{to: 1, size: 4000, dscp: dscpData, ecn: wire.ECNECT0})
	for _, f := range cut {
		ip, err := wire.ParseIPv4(f.B[wire.EthLen:])
		if err != nil || ip.TotalLen() != 114 || !ip.ChecksumOK() {
			t.Fatalf("total length %d, checksum %v, %v", ip.TotalLen(), ip.ChecksumOK(), err)
		}
		if l4 := wire.EthLen + wire.IPv4Len; !bytes.Equal(f.B[l4:], full.B[l4:128]) {
			t.Fatalf("transport header and payload have changed: % x", f.B[l4:])
		}
	}
	f := cut[0].B
	if u, _ := wire.ParseUDP(f[wire.EthLen+wire.IPv4Len:]); u.Len() != 4000-34 || u.Checksum() != 0 {
		t.Errorf("UDP length %d, checksum %d", u.Len(), u.Checksum())
	}
}

// TRIM-03: the IPv6 payload length is right.
func TestTRIM03_IPv6PayloadLength(t *testing.T) {
	for _, native := range []bool{false, true} {
		set := plan()
		set.Trim.Size = 128
		_, cut := overfill(t, set, pkt{v6: true, native: native})
		for _, f := range cut {
			if ip, err := wire.ParseIPv6(f.B[wire.EthLen:]); err != nil || ip.TotalLen() != 114 {
				t.Fatalf("total length %d, %v", ip.TotalLen(), err)
			}
		}
	}
}

// TRIM-04: never below MIN_TRIM_SIZE; the PDS header stays whole.
func TestTRIM04_NeverBelowMinimum(t *testing.T) {
	for kind, want := range map[pkt]int{{}: 58, {v6: true}: 78, {native: true}: 54, {v6: true, native: true}: 74} {
		set := plan()
		set.Trim.Size = 40
		_, cut := overfill(t, set, kind)
		if len(cut) == 0 {
			t.Fatalf("%v: nothing trimmed", kind)
		}
		for _, f := range cut {
			if len(f.B) != want {
				t.Fatalf("%v: %d bytes, want %d", kind, len(f.B), want)
			}
		}
	}
}

// TRIM-04 for packets with a security header, which stands before PDS, and for tunnels.
func TestTRIM04_SecurityHeaderAndVXLAN(t *testing.T) {
	r := newRig(t, plan(), gig)
	packet := func(p pkt, tss int) []byte {
		f := r.frame(p)
		b := f.B[wire.EthLen:]
		at := wire.IPv4Len + wire.UDPLen
		if p.v6 {
			at = wire.IPv6Len + wire.UDPLen
		}
		if p.native {
			at -= 4
		}
		if tss > 0 {
			h := wire.AppendTSS(nil, &wire.TSSFields{SP: tss == 16})
			copy(b[at:], h)
		}
		return b
	}
	tunnel := func(inner []byte) []byte {
		b := packet(pkt{size: 200}, 0)[:wire.IPv4Len+wire.UDPLen]
		b[wire.IPv4Len+2], b[wire.IPv4Len+3] = 4789>>8, 4789&0xFF
		b = append(b, make([]byte, vxlanLen+wire.EthLen)...)
		return append(b, inner...)
	}
	p4, p6 := pkt{size: 200}, pkt{size: 200, v6: true}
	n4, n6 := pkt{size: 200, native: true}, pkt{size: 200, v6: true, native: true}
	for _, c := range []struct {
		name string
		b    []byte
		want int // of IP payload
	}{
		{"UDP", packet(p4, 0), 24}, {"UDP, TSS", packet(p4, 12), 36}, {"UDP, TSS with SSI", packet(p4, 16), 40},
		{"UDP over IPv6, TSS", packet(p6, 12), 36}, {"native", packet(n4, 0), 20}, {"native, TSS with SSI", packet(n6, 16), 36},
		{"VXLAN, native", tunnel(packet(n4, 0)), 70}, {"VXLAN, UDP", tunnel(packet(p4, 0)), 74}, {"VXLAN, UDP over IPv6", tunnel(packet(p6, 0)), 94},
		{"VXLAN, UDP, TSS", tunnel(packet(p4, 12)), 86},
	} {
		_, hl, _ := header(c.b)
		if got := leastPacket(c.b) - hl; got != c.want {
			t.Errorf("%s: %d bytes of IP payload, want %d", c.name, got, c.want)
		}
	}
}

// TRIM-05: TRIMMED, CONTROL and non-IP are dropped, not trimmed.
func TestTRIM05_NotTrimmable(t *testing.T) {
	for _, dscp := range []uint8{dscpTrimmed, dscpLastHop, dscpControl, dscpBest} {
		r := newRig(t, plan(), 400*gig, gig)
		q := int(r.s.set.Classes[dscp])
		r.s.set.Queues[q].Trim = true // even where the queue would
		r.send(40, pkt{to: 1, size: 4000, dscp: dscp})
		r.drain()
		n := r.stat(1, q, link.QDrop)
		if n == 0 || r.Ports[1].C[link.DropQueue] != n || r.Ports[1].C[link.Trimmed] != 0 || len(r.got(1)) != 40-int(n) {
			t.Errorf("DSCP %d: %d dropped, counted %d, trimmed %d", dscp, n, r.Ports[1].C[link.DropQueue], r.Ports[1].C[link.Trimmed])
		}
	}
	r := newRig(t, plan(), 400*gig, gig)
	for range 40 {
		f := r.frame(pkt{to: 1, size: 4000, dscp: dscpData})
		wire.Eth(f.B).SetType(wire.EtherARP)
		r.deliver(0, f)
	}
	r.drain()
	if r.Ports[0].C[link.DropPacket] != 40 || r.Ports[1].C[link.Trimmed] != 0 || len(r.out.frames) != 0 {
		t.Error("non-IP frames were not dropped")
	}
}

// Multicast is not trimmed; a route to a group address does not make it unicast.
func TestMulticastNotTrimmed(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		r := newRig(t, plan(), 400*gig, gig)
		r.s.SetRoutes([]Route{{Ports: []int{1}, Prefixes: []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}}})
		for range 40 {
			f := r.frame(pkt{to: 1, size: 4000, dscp: dscpData, v6: v6})
			if v6 {
				f.B[wire.EthLen+24] = 0xFF
			} else {
				f.B[wire.EthLen+16] = 239
				wire.IPv4(f.B[wire.EthLen:]).SetChecksum()
			}
			r.deliver(0, f)
		}
		r.drain()
		if c := r.Ports[1].C; c[link.Trimmed] != 0 || c[link.DropQueue] != 14 {
			t.Errorf("v6=%v: %d trimmed, %d dropped", v6, c[link.Trimmed], c[link.DropQueue])
		}
	}
}

// TRIM-06: a packet that is shorter than the trim size is re-marked and not cut.
func TestTRIM06_ShortPacketRemarked(t *testing.T) {
	for _, kind := range kinds {
		set := plan()
		set.Trim.Size, set.Queues[1].Limit = 128, 1000
		r := newRig(t, set, 400*gig, gig)
		p := kind
		p.to, p.size, p.dscp = 1, 100, dscpData
		r.send(30, p)
		r.drain()
		cut := ofDSCP(r.got(1), dscpTrimmed)
		if len(cut) != 19 { // 10 wait and one is on the line
			t.Errorf("%v: %d re-marked", kind, len(cut))
		}
		for _, f := range cut {
			if len(f.B) != 100 {
				t.Fatalf("%v: %d bytes", kind, len(f.B))
			}
			if !kind.v6 && (wire.IPv4(f.B[wire.EthLen:]).TotalLen() != 86 || !wire.IPv4(f.B[wire.EthLen:]).ChecksumOK()) {
				t.Fatalf("%v: header % x", kind, f.B[wire.EthLen:])
			}
		}
	}
}

// TRIM-07: a host port uses the last-hop DSCP, a fabric port the trimmed DSCP.
func TestTRIM07_LastHopDSCP(t *testing.T) {
	r := newRig(t, plan(), 400*gig, gig, gig) // port 1 leads to a switch, port 2 to a host
	for _, to := range []int{1, 2} {
		r.send(40, pkt{to: to, size: 4000, dscp: dscpData})
		r.drain()
		frames := r.got(to)
		trimmed, last := len(ofDSCP(frames, dscpTrimmed)), len(ofDSCP(frames, dscpLastHop))
		if want := []int{14, 0}[to-1]; trimmed != want || last != 14-want {
			t.Errorf("port %d: %d trimmed, %d last hop", to, trimmed, last)
		}
	}
}

// TRIM-08: trimmed traffic has a queue of its own and 75 % ± 3 under pressure.
func TestTRIM08_ShareOfTrimmedQueue(t *testing.T) {
	set := plan()
	set.Queues[2].Limit = 50_000
	r := newRig(t, set, 400*gig, 10*gig)
	for r.Now() < 2_000_000 {
		r.send(1, pkt{to: 1, size: 4000, dscp: dscpData})
		r.send(4, pkt{to: 1, size: 1000, dscp: dscpTrimmed})
		r.wait(500)
	}
	data, trimmed := r.line(1, 1), r.line(1, 2)
	if share := trimmed / (data + trimmed); share < 0.72 || share > 0.78 {
		t.Errorf("trimmed has %.1f %%", share*100)
	}
}

// line is what a queue has put on the line, preamble and gap counted.
func (r *rig) line(port, q int) float64 {
	return float64(r.stat(port, q, link.QTxBytes) + 24*r.stat(port, q, link.QTxFrames))
}

// TRIM-09: a trimmed packet whose queue is full is dropped and counted.
func TestTRIM09_TrimQueueFull(t *testing.T) {
	set := plan()
	set.Buffer.Shared = 400_000 // half of it set aside for PFC
	set.Queues[2].Alpha = 1.0 / 128
	r := newRig(t, set, 400*gig, gig)
	r.send(80, pkt{to: 1, size: 4000, dscp: dscpData})
	trim, lost := r.stat(1, 1, link.QTrim), r.stat(1, 1, link.QTrimDrop)
	if trim != 54 || lost == 0 || r.Ports[1].C[link.DropTrim] != lost || r.Ports[1].C[link.DropQueue] != 0 {
		t.Errorf("%d trimmed, %d of them lost, drops %d and %d", trim, lost, r.Ports[1].C[link.DropTrim], r.Ports[1].C[link.DropQueue])
	}
	// 54 × 64 bytes against alpha × (200 000 − 100 000 − own)
	if n := r.Ports[1].QueueBytes(2); n < 700 || n > 900 {
		t.Errorf("%d bytes of trimmed packets wait", n)
	}
}

// TRIM-10: trim = trim_tx + trim_drop + queued; drop counters include the originals.
func TestTRIM10_CounterIdentity(t *testing.T) {
	set := plan()
	set.Queues[2].Limit = 2000
	r := newRig(t, set, 400*gig, gig)
	var sent uint64
	for i := range 300 {
		r.send(1+i%60, pkt{to: 1, size: 4000, dscp: dscpData})
		sent += uint64(1 + i%60)
		r.wait(time.Duration(i%7) * 5 * time.Microsecond)
		queued := uint64(r.Ports[1].QueueBytes(2) / 64)
		if trim, tx, lost := r.stat(1, 1, link.QTrim), r.stat(1, 1, link.QTrimTx), r.stat(1, 1, link.QTrimDrop); trim != tx+lost+queued {
			t.Fatalf("%d trimmed, %d sent, %d lost, %d wait", trim, tx, lost, queued)
		}
	}
	r.drain()
	whole := uint64(len(ofDSCP(r.got(1), dscpData)))
	if d := r.stat(1, 1, link.QDrop); d != sent-whole || d != r.stat(1, 1, link.QTrim) || r.stat(1, 1, link.QDropBytes) != d*4000 {
		t.Errorf("%d dropped of %d, %d arrived whole", d, sent, whole)
	}
	if r.stat(1, 1, link.QTrimDrop) == 0 || r.stat(1, 1, link.QTrimTx) == 0 {
		t.Error("the test meant to have both lost and sent copies")
	}
}

// TRIM-11: where trimming is disabled for a source, its packets are dropped.
func TestTRIM11_DisabledSource(t *testing.T) {
	for _, off := range []string{"10.1.0.0/16", "10.1.0.1/32"} {
		set := plan()
		set.Trim.Disabled = []string{off, "fd77::/16"}
		r := newRig(t, set, 400*gig, gig)
		r.send(40, pkt{to: 1, size: 4000, dscp: dscpData})
		r.drain()
		if c := r.Ports[1].C; c[link.Trimmed] != 0 || c[link.DropQueue] != 14 {
			t.Errorf("%s: %d trimmed, %d dropped", off, c[link.Trimmed], c[link.DropQueue])
		}
		r.send(40, pkt{to: 1, size: 4000, dscp: dscpData, v6: true})
		r.drain()
		if c := r.Ports[1].C; c[link.Trimmed] != 14 {
			t.Errorf("%s: of another source %d were trimmed", off, c[link.Trimmed])
		}
	}
}

// TRIM-12: a trimmed packet takes the path that the whole one would have taken.
func TestTRIM12_SamePath(t *testing.T) {
	set := plan()
	set.Queues[2].Limit = 1 << 20
	r := newRig(t, set, 400*gig, 400*gig, 400*gig)
	r.s.SetRoutes([]Route{{Ports: []int{1, 2}, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("fd02::/32")}}})
	paths := map[int]int{}
	for _, kind := range kinds {
		for ev := range 100 {
			p := kind
			p.to, p.size, p.dscp, p.ev = 1, 4000, dscpData, uint16(ev*31)
			var path [2]int
			for i := range path {
				f := r.frame(p)
				if i == 1 { // as the switch before would have cut it
					r.s.cut(f, dscpTrimmed)
				}
				r.deliver(0, f)
				r.drain()
				path[i] = r.out.ports[0]
				r.out.frames, r.out.ports = nil, nil
			}
			if path[0] != path[1] {
				t.Fatalf("%v, EV %d: paths %v", kind, p.ev, path)
			}
			paths[path[0]]++
		}
	}
	if len(paths) != 2 {
		t.Errorf("only %v were used", paths)
	}
}

// TRIM-13: the TTL is decremented, ECN bits stay, no CE is added to a trimmed packet.
func TestTRIM13_TTLAndECN(t *testing.T) {
	for _, kind := range kinds[:2] {
		for ecn := range uint8(4) {
			set := plan()
			set.Queues[2].Kmin, set.Queues[2].Kmax = 0, 1 // though somebody would mark all
			p := kind
			p.ecn = ecn
			_, cut := overfill(t, set, p)
			for _, f := range cut {
				ttl := f.B[wire.EthLen+8]
				if kind.v6 {
					ttl = f.B[wire.EthLen+7]
				}
				if ttl != 63 || ecnIn(f) != ecn {
					t.Fatalf("%v: TTL %d, ECN %d, want 63 and %d", kind, ttl, ecnIn(f), ecn)
				}
			}
		}
	}
}

// TRIM-14, the switches' half: with fixIP false the IP length stays stale, and the next switch forwards such a packet all the same.
func TestTrimLeavesLengthWhenToldTo(t *testing.T) {
	set := plan()
	set.Trim.FixIP = false
	for _, kind := range kinds {
		_, cut := overfill(t, set, kind)
		next := newRig(t, plan(), 400*gig, 400*gig)
		for _, f := range cut {
			if len(f.B) != max(64, map[bool]int{true: 74, false: 54}[kind.v6]+map[bool]int{true: 0, false: 4}[kind.native]) {
				t.Fatalf("%v: %d bytes", kind, len(f.B))
			}
			if !kind.v6 {
				if ip := wire.IPv4(f.B[wire.EthLen:]); ip.TotalLen() != 3986 || !ip.ChecksumOK() {
					t.Fatalf("%v: total length %d, checksum %v", kind, ip.TotalLen(), ip.ChecksumOK())
				}
			} else if ip := wire.IPv6(f.B[wire.EthLen:]); ip.TotalLen() != 3986 {
				t.Fatalf("%v: total length %d", kind, ip.TotalLen())
			}
			g := next.Pool.Get()
			g.B = append(g.B, f.B...)
			wire.Eth(g.B).SetDst(mac(0))
			next.deliver(0, g)
		}
		next.drain()
		if got := len(next.got(1)); got != len(cut) {
			t.Errorf("%v: the next switch forwarded %d of %d", kind, got, len(cut))
		}
	}
}

// Retransmissions are trimmed only beyond their own limit.
func TestRetransmissionsHaveTheirLimit(t *testing.T) {
	r := newRig(t, plan(), 400*gig, gig)
	r.send(40, pkt{to: 1, size: 4000, dscp: dscpData})
	trimmed := r.stat(1, 1, link.QTrim)
	r.send(40, pkt{to: 1, size: 4000, dscp: dscpRetx})
	if n := r.Ports[1].QueueBytes(1); n != 148_000 || r.stat(1, 1, link.QTrim) != trimmed+28 {
		t.Errorf("%d bytes wait, %d retransmissions trimmed", n, r.stat(1, 1, link.QTrim)-trimmed)
	}
}

// A frame whose payload is still in its sender's memory is cut like any other, and forgets it.
func TestTrimOfReferredPayload(t *testing.T) {
	for _, size := range []int{64, 1000} {
		set := plan()
		set.Trim.Size = size
		r := newRig(t, set, 400*gig, gig)
		payload := bytes.Repeat([]byte{0xAB}, 3000)
		for range 60 {
			f := r.Pool.Get()
			f.B = wire.AppendUDPFrame(f.B, &wire.FrameFields{DstMAC: mac(0), SrcMAC: peer(0), Src: addr4(0, 1), Dst: addr4(1, 1), DSCP: dscpData})
			f.B = append(f.B, make([]byte, 56)...)
			f.B[wire.EthLen+wire.IPv4Len+wire.UDPLen] = byte(wire.TypeRUDReq) << 3
			f.Refer(payload)
			wire.FinishUDP(f.B)
			r.deliver(0, f)
		}
		r.drain()
		cut := ofDSCP(r.got(1), dscpTrimmed)
		if len(cut) == 0 {
			t.Fatal("nothing was trimmed")
		}
		for _, f := range cut {
			if len(f.B) != size || f.Ref() != nil {
				t.Fatalf("%d bytes, %d more referred to", len(f.B), len(f.Ref()))
			}
			if size > 98 && (f.B[98] != 0xAB || f.B[size-1] != 0xAB) {
				t.Fatalf("payload % x", f.B[98:])
			}
		}
	}
}

// A UET packet that dies on its way dies silently, with a tag or without; others are told.
func TestExpiredUETIsSilent(t *testing.T) {
	set := plan()
	set.CSIG.Enabled = true
	for _, v6 := range []bool{false, true} {
		for _, csig := range []bool{false, true} {
			for _, uet := range []bool{true, false} {
				r := newRig(t, set, gig, gig)
				f := r.frame(pkt{to: 1, size: 200, v6: v6})
				if v6 {
					f.B[wire.EthLen+7] = 1
				} else {
					f.B[wire.EthLen+8] = 1
					wire.IPv4(f.B[wire.EthLen:]).SetChecksum()
				}
				if !uet {
					l4 := wire.EthLen + wire.IPv4Len
					if v6 {
						l4 = wire.EthLen + wire.IPv6Len
					}
					f.B[l4+3]++ // destination port
				}
				if csig {
					f.B, _ = wire.InsertCSIG(f.B, &wire.CSIGFields{})
				}
				r.deliver(0, f)
				r.drain()
				if answers := len(r.got(0)); answers != map[bool]int{true: 0, false: 1}[uet] || r.Ports[0].C[link.DropTTL] != 1 {
					t.Errorf("v6=%v tag=%v uet=%v: %d answers", v6, csig, uet, answers)
				}
			}
		}
	}
}
