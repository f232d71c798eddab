package wire

import (
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

var benchReq = RequestFields{Type: TypeRUDReq, Next: NextRequestStd, Flags: ReqAR, ClearOffset: -3, PSN: 70000, SPDCID: 17, DPDCID: 33}

var benchStd = StdFields{HeadFields: HeadFields{Opcode: OpSend, Flags: SESRel | SESSOM | SESEOM, JobID: 1, PIDonFEP: 2, ResourceIndex: 3},
	MessageID: 5, BufferOffset: 4096, Initiator: 9, MatchBits: 77, RequestLength: 4096}

// benchFrame is a whole data packet of 4096 bytes with CRC.
func benchFrame() []byte {
	b := AppendUDPFrame(make([]byte, 0, 8192), &FrameFields{DstMAC: MAC{2, 0, 0, 0, 0, 1}, SrcMAC: MAC{2, 0, 0, 0, 0, 2},
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.5"), EV: 4711, DSCP: 10, ECN: ECNECT0})
	b = AppendSESStd(AppendRequest(b, &benchReq), &benchStd)
	return AppendUETCRC(append(b, make([]byte, 4096)...))
}

var benchSink uint64

// BenchmarkOuterUETLab and BenchmarkOuterGopacket read the same Ethernet, IPv4 and UDP headers of the same packet.
func BenchmarkOuterUETLab(b *testing.B) {
	frame := benchFrame()
	b.ReportAllocs()
	for b.Loop() {
		in, err := ParseUET(frame, ProtoNative)
		if err != nil {
			b.Fatal(err)
		}
		benchSink += uint64(in.EV)
	}
}

func BenchmarkOuterGopacket(b *testing.B) {
	frame := benchFrame()
	var eth layers.Ethernet
	var ip layers.IPv4
	var udp layers.UDP
	var payload gopacket.Payload
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &udp, &payload)
	var got []gopacket.LayerType
	b.ReportAllocs()
	for b.Loop() {
		if err := parser.DecodeLayers(frame, &got); err != nil {
			b.Fatal(err)
		}
		benchSink += uint64(udp.SrcPort)
	}
}

func BenchmarkFlow(b *testing.B) {
	ip := benchFrame()[EthLen:]
	b.ReportAllocs()
	for b.Loop() {
		k, _ := Flow(ip)
		benchSink += uint64(k[33])
	}
}

// BenchmarkRestamp is what a switch does to a frame on its way: TTL, MACs, due time; the FCS over 4.2 kB dominates.
func BenchmarkRestamp(b *testing.B) {
	frame := AppendTrailer(benchFrame(), 0, 0)
	n := len(frame) - TrailerLen
	b.ReportAllocs()
	for b.Loop() {
		ip := IPv4(frame[EthLen:n])
		ip[8] = 64
		ip.SetChecksum()
		ip.DecTTL()
		PutTrailer(frame, 12345, 0, FCS(frame[:n]))
	}
}

func BenchmarkUETCRC(b *testing.B) {
	frame := benchFrame()
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if !CheckUETCRC(frame[EthLen:]) {
			b.Fatal("bad CRC")
		}
	}
}

func BenchmarkDecodeSummary(b *testing.B) {
	frame := benchFrame()
	b.ReportAllocs()
	for b.Loop() {
		p := Decode(frame, Options{})
		benchSink += uint64(len(p.Summary()))
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	frame, buf := AppendTrailer(benchFrame(), 7, 0), make([]byte, 0, 8192)
	bad := append([]byte(nil), frame...)
	bad[EthLen+9] = 99
	if n := testing.AllocsPerRun(100, func() {
		f, _, _ := SplitTrailer(frame)
		in, err := ParseUET(f, ProtoNative)
		if err != nil || !CheckUETCRC(in.IP) {
			t.Fatal(err)
		}
		r, _ := ParseRequest(in.UET)
		if _, err := SplitSES(r.Next(), in.UET[len(r):]); err != nil {
			t.Fatal(err)
		}
		if k, ok := Flow(in.IP); !ok || k.SrcPort() != 4711 {
			t.Fatal("flow")
		}
		b := AppendUDPFrame(buf[:0], &FrameFields{Src: IPv4(in.IP).Dst(), Dst: IPv4(in.IP).Src(), EV: in.EV})
		b = AppendAck(b, &AckFields{Type: TypeAckCC, Next: NextResponse, CACK: r.PSN()})
		b = AppendSESResponse(b, &ResponseFields{})
		if b = AppendTrailer(AppendUETCRC(b), 12, 0); !FCSOK(b) {
			t.Fatal("FCS")
		}
		if _, err := ParseUET(bad, ProtoNative); err == nil {
			t.Fatal("bad frame accepted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
