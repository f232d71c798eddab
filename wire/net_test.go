package wire

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

var (
	addr4a, addr4b = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.5")
	addr6a, addr6b = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::5")
)

// build serializes layers with gopacket, which here is the independent opinion on lengths and checksums.
func build(t testing.TB, list ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	opt := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opt, list...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(buf.Bytes())
}

func ip4(proto layers.IPProtocol, src, dst netip.Addr) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, Protocol: proto, SrcIP: net.IP(src.AsSlice()), DstIP: net.IP(dst.AsSlice())}
}

func ip6(proto layers.IPProtocol, src, dst netip.Addr) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: proto, SrcIP: net.IP(src.AsSlice()), DstIP: net.IP(dst.AsSlice())}
}

func echo4(t testing.TB, typ uint8, src, dst netip.Addr) []byte {
	return build(t, ip4(layers.IPProtocolICMPv4, src, dst),
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(typ, 0), Id: 7, Seq: 9}, gopacket.Payload("hello, odd"[:9]))
}

func echo6(t testing.TB, typ uint8, src, dst netip.Addr) []byte {
	ip := ip6(layers.IPProtocolICMPv6, src, dst)
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, 0)}
	if err := icmp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	return build(t, ip, icmp, &layers.ICMPv6Echo{Identifier: 7, SeqNumber: 9}, gopacket.Payload("hello, odd"[:9]))
}

func TestEchoReply(t *testing.T) {
	pre := []byte("before")
	for _, c := range []struct{ ask, want []byte }{
		{echo4(t, ICMP4EchoRequest, addr4a, addr4b), echo4(t, ICMP4EchoReply, addr4b, addr4a)},
		{echo6(t, ICMP6EchoRequest, addr6a, addr6b), echo6(t, ICMP6EchoReply, addr6b, addr6a)},
	} {
		got, ok := AppendICMPEchoReply(pre, append(bytes.Clone(c.ask), 0, 0, 0)) // padding must not matter
		if !ok || !bytes.Equal(got, append(bytes.Clone(pre), c.want...)) {
			t.Errorf("reply %v\n%x, want\n%x", ok, got, c.want)
		}
		if _, ok := AppendICMPEchoReply(nil, c.want); ok {
			t.Error("an echo reply is answered")
		}
		c.ask[len(c.ask)-1] ^= 1
		if _, ok := AppendICMPEchoReply(nil, c.ask); ok {
			t.Error("a damaged request is answered")
		}
		for n := range c.ask {
			if _, ok := AppendICMPEchoReply(nil, c.ask[:n]); ok {
				t.Errorf("a request cut to %d bytes is answered", n)
			}
		}
	}
}

func TestICMPError(t *testing.T) {
	router4, router6 := netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd00::99")
	udp := gopacket.Payload(append([]byte{0x30, 0x39, 0x12, 0xb9, 0, 8, 0, 0}, make([]byte, 1500)...))
	orig4, orig6 := build(t, ip4(17, addr4a, addr4b), udp), build(t, ip6(17, addr6a, addr6b), udp)
	for kind, c := range icmpCodes {
		got, ok := AppendICMPError(nil, orig4, router4, ICMPError(kind), 1400)
		icmp := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(c.t4, c.c4)}
		if ICMPError(kind) == ICMPTooBig {
			icmp.Seq = 1400
		}
		want := build(t, ip4(layers.IPProtocolICMPv4, router4, addr4a), icmp, gopacket.Payload(orig4[:576-28]))
		if !ok || !bytes.Equal(got, want) {
			t.Errorf("IPv4 kind %d: %v\n%x, want\n%x", kind, ok, got, want)
		}
		got, ok = AppendICMPError(nil, orig6, router6, ICMPError(kind), 1400)
		ip := ip6(layers.IPProtocolICMPv6, router6, addr6a)
		v6 := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(c.t6, c.c6)}
		if err := v6.SetNetworkLayerForChecksum(ip); err != nil {
			t.Fatal(err)
		}
		word := []byte{0, 0, 0, 0}
		if ICMPError(kind) == ICMPTooBig {
			word = []byte{0, 0, 1400 >> 8, 1400 & 0xFF}
		}
		want = build(t, ip, v6, gopacket.Payload(append(word, orig6[:1280-48]...)))
		if !ok || !bytes.Equal(got, want) {
			t.Errorf("IPv6 kind %d: %v\n%x, want\n%x", kind, ok, got, want)
		}
		// An error may not be answered by an error, nor a fragment in the middle, nor group and odd addresses.
		first, _ := AppendICMPError(nil, orig4, router4, ICMPError(kind), 0)
		first6, _ := AppendICMPError(nil, orig6, router6, ICMPError(kind), 0)
		frag, multi := bytes.Clone(orig4), bytes.Clone(orig4)
		frag[7], multi[16] = 9, 224
		for i, p := range [][]byte{first, first6, frag, multi, orig4[:19], nil} {
			from := router4
			if i == 1 {
				from = router6
			}
			if _, ok := AppendICMPError(nil, p, from, ICMPError(kind), 0); ok {
				t.Errorf("case %d is answered", i)
			}
		}
		if _, ok := AppendICMPError(nil, orig4, router6, ICMPError(kind), 0); ok {
			t.Error("IPv4 answered from an IPv6 address")
		}
	}
}

func TestIPv4IncrementalChecksum(t *testing.T) {
	const seed = 20260101
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range 20000 {
		p := make(IPv4, 20+4*r.IntN(11))
		for j := range p {
			p[j] = byte(r.Uint32())
		}
		p[0] = 0x40 | byte(len(p)/4)
		p.SetChecksum()
		dscp, ecn, ttl := uint8(r.UintN(64)), uint8(r.UintN(4)), p.TTL()
		p.SetDSCP(dscp)
		p.SetECN(ecn)
		p.SetTotalLen(i)
		fwd := p.DecTTL()
		if fwd != (ttl > 1) || fwd && p.TTL() != ttl-1 || !fwd && p.TTL() != ttl {
			t.Fatalf("TTL %d: forward %v, now %d", ttl, fwd, p.TTL())
		}
		got := u16(p, 10)
		p.SetChecksum()
		if !p.ChecksumOK() || got != u16(p, 10) || p.DSCP() != dscp || p.ECN() != ecn || p.TotalLen() != i {
			t.Fatalf("round %d: checksum %04x, afresh %04x: %x", i, got, u16(p, 10), []byte(p))
		}
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		if p[0]&0xF == byte(len(p)/4) && p.ChecksumOK() {
			t.Fatalf("round %d: a flipped bit goes unseen: %x", i, []byte(p))
		}
	}
}

func TestIPv6Fields(t *testing.T) {
	p := make(IPv6, 60)
	p[0], p[1], p[7] = 0x6F, 0xFF, 2
	p.SetDSCP(0b101010)
	p.SetECN(0b01)
	if p[0] != 0x6A || p[1] != 0x9F || p.DSCP() != 0b101010 || p.ECN() != 1 || p.FlowLabel() != 0xF0000 {
		t.Errorf("%x: dscp %b ecn %b label %x", p[:4], p.DSCP(), p.ECN(), p.FlowLabel())
	}
	if !p.DecHopLimit() || p.HopLimit() != 1 || p.DecHopLimit() || p.HopLimit() != 1 {
		t.Error("hop limit")
	}
	p.SetTotalLen(60)
	if u16(p, 4) != 20 || p.TotalLen() != 60 {
		t.Error("length")
	}
}

func TestFlow(t *testing.T) {
	base := FrameFields{Src: addr4a, Dst: addr4b, EV: 4711, DSCP: 10, ECN: 2}
	frame := func(f FrameFields, body int) []byte {
		b := append(AppendUDPFrame(nil, &f), make([]byte, body)...)
		FinishUDP(b)
		return b[EthLen:]
	}
	k, ok := Flow(frame(base, 100))
	if !ok || k.Src() != addr4a || k.Dst() != addr4b || k.SrcPort() != 4711 || k.DstPort() != UDPPort || k.Proto() != 17 {
		t.Fatalf("%v %v", ok, k)
	}
	same := base
	same.DSCP, same.ECN, same.TTL = 34, 3, 9
	if k2, _ := Flow(frame(same, 4)); k2 != k {
		t.Error("marking, TTL or trimming changes the key")
	}
	seen := map[FlowKey]bool{k: true}
	for name, change := range map[string]func(*FrameFields){
		"ev":  func(f *FrameFields) { f.EV++ },
		"src": func(f *FrameFields) { f.Src = addr4b }, "dst": func(f *FrameFields) { f.Dst = addr4a },
		"v6": func(f *FrameFields) { f.Src, f.Dst = addr6a, addr6b }, "native": func(f *FrameFields) { f.Native = ProtoNative },
		"native v6": func(f *FrameFields) { f.Src, f.Dst, f.Native = addr6a, addr6b, ProtoNative },
	} {
		f := base
		change(&f)
		k, ok := Flow(frame(f, 8))
		if !ok || seen[k] || k.SrcPort() != f.EV || k.Src() != f.Src || k.Dst() != f.Dst {
			t.Errorf("%s: %v %v", name, ok, k)
		}
		if w := k.Words(); byte(w[0]) != k[0] || byte(w[4]>>32) != k[36] {
			t.Errorf("%s: words %x of %x", name, w, k)
		}
		seen[k] = true
	}
	frag := frame(base, 8)
	frag[6] = 0x20
	if k, ok := Flow(frag); !ok || k.SrcPort() != 0 || k.DstPort() != 0 {
		t.Error("a first fragment has ports, the others cannot")
	}
	for _, b := range [][]byte{nil, make([]byte, 40), frag[:19], {0x4F, 19: 0}, {0x60, 38: 0}} {
		if k, ok := Flow(b); ok || k != (FlowKey{}) {
			t.Errorf("%x is no IP packet", b)
		}
	}
}

func TestFrameAgainstGopacket(t *testing.T) {
	for _, f := range []FrameFields{{Src: addr4a, Dst: addr4b}, {Src: addr6a, Dst: addr6b}} {
		f.DstMAC, f.SrcMAC, f.EV, f.DSCP, f.ECN, f.TTL = MAC{2, 0, 0, 0, 0, 1}, MAC{2, 0, 0, 0, 0, 2}, 99, 46, 1, 17
		b := AppendUETCRC(append(AppendUDPFrame([]byte{}, &f), 1, 2, 3))
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		if e := p.ErrorLayer(); e != nil {
			t.Fatal(e.Error())
		}
		eth := p.LinkLayer().(*layers.Ethernet)
		udp := p.TransportLayer().(*layers.UDP)
		if eth.SrcMAC.String() != f.SrcMAC.String() || eth.DstMAC.String() != f.DstMAC.String() || udp.SrcPort != 99 ||
			udp.DstPort != UDPPort || int(udp.Length) != 8+3+4 || udp.Checksum != 0 || len(udp.Payload) != 7 {
			t.Errorf("%+v %+v", eth, udp)
		}
		if v4, ok := p.NetworkLayer().(*layers.IPv4); ok && (v4.TOS != 46<<2|1 || v4.TTL != 17 || v4.Flags != layers.IPv4DontFragment ||
			v4.Id != 0 || int(v4.Length) != len(b)-14 || !IPv4(b[14:]).ChecksumOK()) {
			t.Errorf("%+v", v4)
		}
		if v6, ok := p.NetworkLayer().(*layers.IPv6); ok && (v6.TrafficClass != 46<<2|1 || v6.HopLimit != 17 || int(v6.Length) != 15) {
			t.Errorf("%+v", v6)
		}
		in, err := ParseUET(append(b, 0, 0, 0, 0), ProtoNative) // padding falls off
		if err != nil || len(in.UET) != 7 || in.EV != 99 || in.Cut || !CheckUETCRC(in.IP) || in.DSCP != 46 || in.ECN != 1 {
			t.Errorf("%v %+v", err, in)
		}
		for bit := range len(in.IP) * 8 {
			in.IP[bit/8] ^= 1 << (bit % 8)
			start := (CRCForm{}).start(in.IP)
			covered := start >= 0 && bit/8 >= start
			if covered && CheckUETCRC(in.IP) {
				t.Fatalf("flipped bit %d goes unseen", bit)
			}
			in.IP[bit/8] ^= 1 << (bit % 8)
		}
	}
	if FinishUDP(make([]byte, 30)) || FinishUDP(make([]byte, 70)) || FinishUDP(nil) {
		t.Error("no IP frame, yet finished")
	}
}

func TestParseUETErrors(t *testing.T) {
	good := func() []byte {
		b := append(AppendUDPFrame(nil, &FrameFields{Src: addr4a, Dst: addr4b}), 0x38, 0)
		FinishUDP(b)
		return b
	}
	fix := func(b []byte) { IPv4(b[EthLen:]).SetChecksum() }
	for name, c := range map[string]struct {
		spoil func([]byte) []byte
		want  error
	}{
		"short":    {func(b []byte) []byte { return b[:13] }, errEthShort},
		"arp":      {func(b []byte) []byte { b[13] = 6; return b }, errEtherNotIP},
		"tags":     {func(b []byte) []byte { b[12], b[13] = 0x81, 0; return b[:16] }, errEthShort},
		"version":  {func(b []byte) []byte { b[14] = 0x55; return b }, errV4Version},
		"ihl":      {func(b []byte) []byte { b[14] = 0x44; return b }, errV4IHL},
		"total":    {func(b []byte) []byte { b[17] = 200; return b }, errV4Total},
		"checksum": {func(b []byte) []byte { b[22]++; return b }, errV4Sum},
		"fragment": {func(b []byte) []byte { b[20] = 0x20; fix(b); return b }, errFragment},
		"proto":    {func(b []byte) []byte { b[23] = 6; fix(b); return b }, errNotUET},
		"port":     {func(b []byte) []byte { b[37]++; return b }, errUDPNotToUET},
		"udp len":  {func(b []byte) []byte { b[39] = 7; return b }, errUDPLen},
		"empty":    {func(b []byte) []byte { b = b[:43]; FinishUDP(b); return b }, errUETEmpty},
		"v6":       {func(b []byte) []byte { b[12], b[13] = 0x86, 0xDD; return b }, errV6Short},
	} {
		if _, err := ParseUET(c.spoil(good()), ProtoNative); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// Two 802.1Q tags are looked through.
	b := good()
	tagged := append(bytes.Clone(b[:12]), 0x88, 0xA8, 0, 1, 0x81, 0, 0, 2)
	if in, err := ParseUET(append(tagged, b[12:]...), 0); err != nil || in.Type() != TypeAck {
		t.Errorf("tagged: %v", err)
	}
}

func TestTrailer(t *testing.T) {
	frame := []byte("any frame will do, the trailer does not look into it")
	b := AppendTrailer(bytes.Clone(frame), 0x0102030405060708, LLRWord(1, 0xAB, 0xCDEF0))
	want := []byte{'U', 'E', 'L', '1', 1, 2, 3, 4, 5, 6, 7, 8, 0x1A, 0xBC, 0xDE, 0xF0}
	tail := b[len(frame):]
	if len(tail) != TrailerLen || !bytes.Equal(tail[:16], want) {
		t.Fatalf("%x", tail)
	}
	c := crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli))
	if u32(tail, 16) != c || le32(tail[20:]) != crc32.ChecksumIEEE(frame) {
		t.Errorf("sums %x", tail[16:])
	}
	got, f, ok := SplitTrailer(b)
	if !ok || !bytes.Equal(got, frame) || f.Due != 0x0102030405060708 || f.LLRKind() != LLREligible || f.LLRFlags() != 0xAB ||
		f.LLRSeq() != 0xCDEF0 || !FCSOK(b) {
		t.Errorf("%v %+v", ok, f)
	}
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		_, _, ok := SplitTrailer(b)
		inHead := bit/8 >= len(frame) && bit/8 < len(frame)+20
		if ok == inHead || FCSOK(b) != inHead {
			t.Fatalf("bit %d: trailer ok %v, FCS ok %v", bit, ok, FCSOK(b))
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	// What was left out cannot be wrong.
	free := AppendTrailerFCS(bytes.Clone(frame), 7, LLRWord(LLRNoFCS, 0, 0), 0)
	if _, f, ok := SplitTrailer(free); !ok || !FCSOK(free) || !f.FCSOK(frame) {
		t.Errorf("trailer without FCS: %v %+v", ok, f)
	}
	PutTrailer(b, -1, 0, f.FCS)
	if _, f, ok := SplitTrailer(b); !ok || f.Due != -1 || !FCSOK(b) {
		t.Error("restamped trailer")
	}
	for n := range TrailerLen {
		if _, _, ok := SplitTrailer(b[:n]); ok || FCSOK(b[:n]) {
			t.Errorf("%d bytes are a trailer", n)
		}
	}
	for n, want := range map[int]int{0: 84, 60: 84, 61: 85, 4272: 4296} {
		if LineBytes(n) != want {
			t.Errorf("LineBytes(%d) = %d, want %d", n, LineBytes(n), want)
		}
	}
}

func TestEthAndPSN(t *testing.T) {
	e := Eth(AppendEth(nil, MAC{1, 2, 3, 4, 5, 6}, MAC{7, 8, 9, 10, 11, 0xAC}, EtherIPv6))
	e2, err := ParseEth(e)
	if err != nil || e2.Dst().String() != "01:02:03:04:05:06" || e2.Src().String() != "07:08:09:0a:0b:ac" || e2.Type() != EtherIPv6 {
		t.Errorf("%v %x", err, []byte(e2))
	}
	e.SetDst(Broadcast)
	e.SetSrc(MAC{1, 2, 3, 4, 5, 6})
	if e.Dst() != Broadcast || e.Src() != (MAC{1, 2, 3, 4, 5, 6}) {
		t.Error("set")
	}
	p := PSN(0xFFFFFFFE)
	if !p.Before(1) || p.After(1) || p.Add(3) != 1 || PSN(1).Diff(p) != 3 || p.Diff(1) != -3 || p.Before(p) || PSN(1).Add(-3) != p ||
		p.String() != "4294967294" {
		t.Error("serial arithmetic")
	}
}
