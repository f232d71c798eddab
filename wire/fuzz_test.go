package wire

import (
	"bytes"
	"testing"
)

func seedVectors(f *testing.F, add func(b []byte, layer string)) {
	for _, file := range vectorFiles {
		for _, v := range loadVectors(f, file) {
			add(v.bytes(f), v.Layer)
		}
	}
}

// FuzzDecode feeds the bytes as a frame, as a frame with trailer and as a UET packet. Nothing may panic, and what comes
// out must be consistent.
func FuzzDecode(f *testing.F) {
	head := AppendUDPFrame(nil, &FrameFields{Src: addr4a, Dst: addr4b})
	seedVectors(f, func(b []byte, layer string) {
		if layer == "udp_payload" {
			f.Add(b, false)
			b = append(bytes.Clone(head), b...)
			FinishUDP(b)
		}
		f.Add(b, false)
		f.Add(AppendTrailer(bytes.Clone(b), 1, 0), true)
	})
	for _, b := range linkFrames() {
		f.Add(b, false)
		f.Add(AppendTrailer(b, 1, 0), true)
	}
	f.Add(append(AppendEth(nil, Broadcast, MAC{}, EtherARP), make([]byte, 28)...), false)
	f.Fuzz(func(t *testing.T, b []byte, trailer bool) {
		opt := Options{Trailer: trailer, Open: func(_ []byte, _ TSS, sealed []byte, _ bool) ([]byte, error) { return sealed, nil }}
		before := bytes.Clone(b)
		for _, p := range []Packet{Decode(b, opt), DecodeUET(b, opt)} {
			if p.Summary() == "" {
				t.Error("no summary")
			}
			for _, err := range p.Errs {
				if fe, ok := err.(*FieldError); !ok || fe.Off < 0 || fe.Off > len(b) {
					t.Errorf("error without a place: %v", err)
				}
			}
			if bytes.ContainsAny([]byte(p.Summary()), "\n\r\x1b") {
				t.Errorf("summary is not one line: %q", p.Summary())
			}
			p.Flat()
			p.Derived()
			if n := len(p.SES.Header) + len(p.SES.Ext) + len(p.SES.Payload) + len(p.SES.Rest); n > len(b) {
				t.Errorf("%d bytes of SES out of %d", n, len(b))
			}
		}
		if in, err := ParseUET(b, ProtoNative); err == nil {
			CheckUETCRC(in.IP)
			if len(in.UET) < prologueLen || len(in.UET) > len(in.IP) {
				t.Errorf("UET part of %d bytes in a packet of %d", len(in.UET), len(in.IP))
			}
		}
		if !bytes.Equal(b, before) {
			t.Error("decoding changed the bytes")
		}
	})
}

// FuzzTrailer checks that a trailer that is accepted is written again the same, and that every frame carries one.
func FuzzTrailer(f *testing.F) {
	seedVectors(f, func(b []byte, layer string) { f.Add(AppendTrailer(b, int64(len(b)), 0x10000001)) })
	f.Add([]byte("UEL1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if frame, tr, ok := SplitTrailer(b); ok {
			again := append(bytes.Clone(frame), make([]byte, TrailerLen)...)
			PutTrailer(again, tr.Due, tr.LLR, tr.FCS)
			if !bytes.Equal(again, b) {
				t.Errorf("%x written again is %x", b, again)
			}
		}
		FCSOK(b)
		whole := AppendTrailer(bytes.Clone(b), -5, 0xFFFFFFFF)
		frame, tr, ok := SplitTrailer(whole)
		if !ok || tr.Due != -5 || tr.LLR != 0xFFFFFFFF || !bytes.Equal(frame, b) || !FCSOK(whole) {
			t.Errorf("trailer of %x is lost", b)
		}
	})
}

// FuzzFlow checks that a key depends on nothing a switch changes, and that ICMP answers to anything are sound.
func FuzzFlow(f *testing.F) {
	seedVectors(f, func(b []byte, layer string) {
		if layer == "frame" {
			f.Add(b[EthLen:])
		}
	})
	f.Add(echo4(f, ICMP4EchoRequest, addr4a, addr4b))
	f.Add(echo6(f, ICMP6EchoRequest, addr6a, addr6b))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, from := range []FrameFields{{Src: addr4a}, {Src: addr6a}} {
			for kind := range ICMPError(len(icmpCodes)) {
				if out, ok := AppendICMPError(nil, b, from.Src, kind, 1500); ok {
					checkICMP(t, out)
				}
			}
		}
		if out, ok := AppendICMPEchoReply(nil, b); ok {
			checkICMP(t, out)
		}
		k, ok := Flow(b)
		if !ok {
			if k != (FlowKey{}) {
				t.Error("a key without a flow")
			}
			return
		}
		c := bytes.Clone(b)
		if c[0]>>4 == 4 {
			IPv4(c).SetDSCP(34)
			IPv4(c).SetECN(ECNCE)
			IPv4(c).DecTTL()
			IPv4(c).SetTotalLen(44)
		} else {
			IPv6(c).SetDSCP(34)
			IPv6(c).SetECN(ECNCE)
			IPv6(c).DecHopLimit()
			IPv6(c).SetTotalLen(64)
		}
		if k2, ok := Flow(c); !ok || k2 != k {
			t.Errorf("key changes from %x to %x", k, k2)
		}
	})
}

func checkICMP(t *testing.T, out []byte) {
	t.Helper()
	p := Decode(append(AppendEth(nil, MAC{}, MAC{}, map[byte]EtherType{4: EtherIPv4, 6: EtherIPv6}[out[0]>>4]), out...), Options{})
	if len(p.Errs) != 0 || ICMPSum(out) != 0 || len(p.IPv4)+len(p.IPv6) != len(out) {
		t.Errorf("unsound answer %x: %v", out, p.Errs)
	}
}
