package wire

import (
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// hot is a header pair of the data path: how it is written, and how all that a receiver wants of it is read.
type hot struct {
	name    string
	payload int
	times   time.Duration // so much faster than gopacket it must be at least
	encode  func(dst []byte) []byte
	decode  func(b []byte) uint64 // 0 if b does not parse
}

var hotList = []hot{
	{"request+std", 4096, 10, func(dst []byte) []byte {
		return AppendSESStd(AppendRequest(dst, &benchReq), &benchStd)
	}, decodeRequestStd},
	{"ack_cc+response", 0, 5, func(dst []byte) []byte { return AppendSESResponse(AppendAck(dst, &benchAck), &benchResponse) }, func(b []byte) uint64 {
		a, err := ParseAck(b)
		if err != nil {
			return 0
		}
		st := UnpackNSCC(a.CCState())
		v := uint64(a.AckPSN()) + uint64(a.SACKBase()) + a.SACKBitmap() + uint64(a.DPDCID()) + uint64(a.SPDCID()) + uint64(a.MPR()) +
			uint64(st.ServiceTime) + uint64(st.RcvdBytes) + uint64(st.OOO) + uint64(a.Req()) + uint64(bit(a.M(), 1))
		return v + decodeResponse(a.Next(), b[len(a):])
	}},
	{"nack", 0, 5, func(dst []byte) []byte { return AppendNack(dst, &benchNack) }, func(b []byte) uint64 {
		n, err := ParseNack(b)
		if err != nil {
			return 0
		}
		return uint64(n.PSN()) + uint64(n.Code()) + uint64(n.DPDCID()) + uint64(n.SPDCID()) + uint64(n.Payload()) + uint64(bit(n.M(), 1))
	}},
	{"ack+response", 0, 5, func(dst []byte) []byte {
		return AppendSESResponse(AppendAck(dst, &AckFields{Type: TypeAck, Next: NextResponse, CACK: 9, AckOffset: 1, SPDCID: 1, DPDCID: 2}), &benchResponse)
	}, func(b []byte) uint64 {
		a, err := ParseAck(b)
		if err != nil {
			return 0
		}
		return uint64(a.AckPSN()) + uint64(a.DPDCID()) + decodeResponse(a.Next(), b[len(a):])
	}},
}

var (
	benchAck = AckFields{Type: TypeAckCC, Next: NextResponse, Flags: AckM, AckOffset: 2, CACK: 12, SPDCID: 3, DPDCID: 17, MPR: 8,
		SACKOffset: 1, SACKBitmap: 0b1011, CCState: NSCCState{ServiceTime: 2, RcvdBytes: 4, OOO: 1}.Pack()}
	benchResponse = ResponseFields{RespFields: RespFields{Opcode: RespResponse, ReturnCode: RCOK, JobID: 1}, MessageID: 5, ModifiedLength: 4096}
	benchNack     = NackFields{Type: TypeNack, Flags: NackM, Code: NackTrimmed, PSN: 77, SPDCID: 1, DPDCID: 2}
)

func decodeRequestStd(b []byte) uint64 {
	r, err := ParseRequest(b)
	if err != nil {
		return 0
	}
	var s SES
	if s.Split(r.Next(), b[len(r):]) != nil {
		return 0
	}
	std := SESStd(s.Header)
	h := std.Head()
	return uint64(r.PSN()) + uint64(r.ClearPSN()) + uint64(r.DPDCID()) + uint64(h.Opcode()) + uint64(std.MessageID()) +
		uint64(std.RequestLength()) + uint64(h.JobID()) + std.BufferOffset() + std.MatchBits() + uint64(len(s.Payload))
}

func decodeResponse(next NextHdr, b []byte) uint64 {
	var s SES
	if s.Split(next, b) != nil {
		return 0
	}
	r := SESResponse(s.Header)
	return uint64(r.Head().Opcode()) + uint64(r.Head().ReturnCode()) + uint64(r.MessageID()) + uint64(r.JobID()) + uint64(r.ModifiedLength())
}

// frame is the whole packet, for gopacket.
func (h *hot) frame() []byte {
	b := h.encode(AppendUDPFrame(nil, &FrameFields{Src: addr4a, Dst: addr4b, EV: 4711}))
	return AppendUETCRC(append(b, make([]byte, h.payload)...))
}

// gopacketFull is gopacket's full decode with its default options; to it UET is payload.
func gopacketFull(frame []byte) uint64 {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	return uint64(len(p.Layers()))
}

// BenchmarkHot writes and reads each hot header beside gopacket's full decode of the same packet.
func BenchmarkHot(b *testing.B) {
	for _, h := range hotList {
		frame, buf := h.frame(), make([]byte, 0, 256)
		body := frame[EthLen+IPv4Len+UDPLen : len(frame)-CRCLen]
		b.Run(h.name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = h.encode(buf[:0])
			}
		})
		b.Run(h.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSink += h.decode(body)
			}
		})
		b.Run(h.name+"/decode_frame", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				in, err := ParseUET(frame, ProtoNative)
				if err != nil {
					b.Fatal(err)
				}
				benchSink += h.decode(in.UET[:len(in.UET)-CRCLen])
			}
		})
		b.Run(h.name+"/gopacket_full", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchSink += gopacketFull(frame)
			}
		})
	}
	trailerBench(b)
}

func trailerBench(b *testing.B) {
	frame := AppendTrailer((&hot{encode: hotList[2].encode}).frame(), 7, 0)
	n := len(frame) - TrailerLen
	b.Run("trailer/encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			PutTrailer(frame, 12345, 0, 99)
		}
	})
	b.Run("trailer/decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, t, ok := SplitTrailer(frame)
			if !ok {
				b.Fatal("trailer")
			}
			benchSink += uint64(t.Due)
		}
	})
	b.Run("trailer/gopacket_full", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchSink += gopacketFull(frame[:n])
		}
	})
}

// TestHotPairs holds the data path to what it promises: no allocation, and a data packet's pair written and read in a tenth
// of what gopacket takes for the same packet; of packets without payload gopacket has less to copy. Both are timed in turn
// and the best of many rounds counts, so that other work on the machine does not decide; it spares gopacket the garbage
// collection, which BenchmarkHot counts.
func TestHotPairs(t *testing.T) {
	for _, h := range hotList {
		frame, buf := h.frame(), make([]byte, 0, 256)
		body := frame[EthLen+IPv4Len+UDPLen : len(frame)-CRCLen]
		pair := func() {
			buf = h.encode(buf[:0])
			if benchSink += h.decode(body); h.decode(body[:1]) != 0 {
				t.Fatal("a scrap decodes")
			}
		}
		if n := testing.AllocsPerRun(100, pair); n != 0 {
			t.Errorf("%s: %v allocations", h.name, n)
		}
		if raceEnabled {
			continue
		}
		ours, theirs := time.Hour, time.Hour
		for round := 0; round < 40 || ours*h.times > theirs && round < 2000; round++ { // more where a busy machine leaves no whole round
			ours = min(ours, timed(1000, func() { buf = h.encode(buf[:0]); benchSink += h.decode(body) }))
			theirs = min(theirs, timed(200, func() { benchSink += gopacketFull(frame) }))
		}
		t.Logf("%s: %v written and read, gopacket %v, %.0f times", h.name, ours, theirs, float64(theirs)/float64(ours))
		if ours*h.times > theirs {
			t.Errorf("%s: %v, and gopacket %v: not %d times faster", h.name, ours, theirs, h.times)
		}
	}
}

// timed returns the time of one call of f, out of n.
func timed(n int, f func()) time.Duration {
	start := time.Now()
	for range n {
		f()
	}
	return time.Since(start) / time.Duration(n)
}
