package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// uetFrame puts a UET packet into a frame with CRC.
func uetFrame(f FrameFields, body []byte) []byte {
	return AppendUETCRC(append(AppendUDPFrame(nil, &f), body...))
}

func TestSummary(t *testing.T) {
	base := FrameFields{SrcMAC: MAC{2, 0, 0, 0, 0, 1}, DstMAC: MAC{2, 0, 0, 0, 0, 2}, Src: addr4a, Dst: addr4b, EV: 4711, DSCP: 10, ECN: ECNECT0}
	data := AppendRequest(nil, &RequestFields{Type: TypeRUDReq, Next: NextRequestStd, Flags: ReqSYN, ClearOffset: -1, PSN: 123, SPDCID: 17})
	data = AppendSESStd(data, &StdFields{HeadFields: HeadFields{Opcode: OpSend, Flags: SESSOM | SESEOM, JobID: 1, PIDonFEP: 2}, MessageID: 5, RequestLength: 4096})
	data = uetFrame(base, append(data, make([]byte, 4096)...))
	ack := AppendAck(nil, &AckFields{Type: TypeAckCC, Next: NextResponse, Flags: AckM, AckOffset: 2, CACK: 12, SPDCID: 3, DPDCID: 17, MPR: 8, SACKOffset: 1,
		SACKBitmap: 0b1011, CCState: NSCCState{ServiceTime: 2, RcvdBytes: 4, OOO: 1}.Pack()})
	ack = uetFrame(base, AppendSESResponse(ack, &ResponseFields{RespFields: RespFields{Opcode: RespResponse, ReturnCode: RCOK, JobID: 1}, MessageID: 5, ModifiedLength: 4096}))
	ce := bytes.Clone(data)
	IPv4(ce[EthLen:]).SetECN(ECNCE)
	badCRC := bytes.Clone(data)
	badCRC[len(badCRC)-CRCLen-1] ^= 1
	trimmed := bytes.Clone(data)
	IPv4(trimmed[EthLen:]).SetDSCP(DSCPTrimmed)
	IPv4(trimmed[EthLen:]).SetTotalLen(44)
	lost := bytes.Clone(data)
	IPv4(lost[EthLen:]).SetTotalLen(44)
	v6 := base
	v6.Src, v6.Dst, v6.Native = addr6a, addr6b, ProtoNative
	nack := uetFrame(v6, AppendNack(nil, &NackFields{Type: TypeNack, Code: NackNoPDCAvail, PSN: 9, DPDCID: 4}))
	eth := &layers.Ethernet{SrcMAC: base.SrcMAC[:], DstMAC: base.DstMAC[:], EthernetType: layers.EthernetTypeIPv4}
	tcp := &layers.TCP{SrcPort: 5201, DstPort: 80, Seq: 7, Ack: 8, SYN: true, ACK: true, Window: 100}
	udp := &layers.UDP{SrcPort: 1000, DstPort: 53}
	ipUDP, ipTCP := ip4(layers.IPProtocolUDP, addr4a, addr4b), ip4(layers.IPProtocolTCP, addr4a, addr4b)
	for _, l := range []interface {
		SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
	}{tcp, udp} {
		if err := l.SetNetworkLayerForChecksum(ipUDP); err != nil {
			t.Fatal(err)
		}
	}
	arp := layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
		SourceHwAddress: base.SrcMAC[:], SourceProtAddress: []byte{10, 0, 0, 1}, DstHwAddress: make([]byte, 6), DstProtAddress: []byte{10, 0, 0, 5}}
	arpEth := &layers.Ethernet{SrcMAC: base.SrcMAC[:], DstMAC: Broadcast[:], EthernetType: layers.EthernetTypeARP}
	reply := arp
	reply.Operation = 2
	frag := build(t, eth, ipUDP, gopacket.Payload(make([]byte, 16)))
	frag[20] = 0x20
	IPv4(frag[EthLen:]).SetChecksum()
	for _, c := range []struct {
		name  string
		frame []byte
		opt   Options
		want  string
	}{
		{"data", data, Options{}, "10.0.0.1 > 10.0.0.5 UET RUD_REQ SYN psn 123 (start+0) clear 122 spdcid 17 ev 4711 | " +
			"SEND SOM EOM msg 5 off 0 len 4096 of 4096 job 1 pid 2 ri 0"},
		{"trailer", AppendTrailer(bytes.Clone(data), 9, 0), Options{Trailer: true}, "… job 1 pid 2 ri 0"},
		{"ack", ack, Options{}, "10.0.0.1 > 10.0.0.5 UET ACK_CC M cack 12 ack 14 sack 0b1011 from 13 mpr 1024 svc 256ns rcvd 1024 ooo 1 " +
			"spdcid 3 dpdcid 17 ev 4711 | RESPONSE OK msg 5 modified 4096 job 1"},
		{"nack", nack, Options{}, "fd00::1 > fd00::5 UET NACK NO_PDC_AVAIL psn 9 spdcid 0 dpdcid 4 ev 4711"},
		{"ce", ce, Options{}, "… job 1 pid 2 ri 0 CE"},
		{"bad crc", badCRC, Options{}, "… [BAD UET CRC crc32c: does not fit the packet]"},
		{"trimmed", trimmed, Options{}, "10.0.0.1 > 10.0.0.5 UET RUD_REQ SYN psn 123 (start+0) clear 122 spdcid 17 ev 4711 TRIMMED"},
		{"cut, not trimmed", lost, Options{}, "… ev 4711 [BAD UDP length: beyond the IP packet, whose DSCP is not a trimmed one]"},
		{"no trailer", data, Options{Trailer: true}, "… ri 0 [BAD link trailer magic/crc: is damaged or missing]"},
		{"icmp", append(AppendEth(nil, MAC{}, MAC{}, EtherIPv4), echo4(t, 8, addr4a, addr4b)...), Options{}, "10.0.0.1 > 10.0.0.5 ICMP echo request id 7 seq 9 len 17"},
		{"icmp6", append(AppendEth(nil, MAC{}, MAC{}, EtherIPv6), echo6(t, 129, addr6a, addr6b)...), Options{}, "fd00::1 > fd00::5 ICMP6 echo reply id 7 seq 9 len 17"},
		{"tcp", build(t, eth, ipTCP, tcp, gopacket.Payload("abc")), Options{}, "10.0.0.1:5201 > 10.0.0.5:80 TCP [S.] seq 7 ack 8 win 100 len 3"},
		{"udp", build(t, eth, ipUDP, udp, gopacket.Payload("abc")), Options{}, "10.0.0.1:1000 > 10.0.0.5:53 UDP len 3"},
		{"fragment", frag, Options{}, "10.0.0.1 > 10.0.0.5 fragment of 0 off 0 len 16"},
		{"arp", build(t, arpEth, &arp), Options{}, "ARP who-has 10.0.0.5 tell 10.0.0.1"},
		{"arp reply", build(t, arpEth, &reply), Options{}, "ARP 10.0.0.1 is-at 02:00:00:00:00:01"},
		{"short arp", build(t, arpEth), Options{}, "ARP [BAD ARP header: not Ethernet and IPv4, or shorter than 28 bytes]"},
		{"lldp", AppendEth(nil, MAC{1}, MAC{2}, EtherLLDP), Options{}, "02:00:00:00:00:00 > 01:00:00:00:00:00 LLDP len 0 [BAD LLDP length: ends without an End TLV]"},
		{"runt", make([]byte, 9), Options{}, "frame of 9 bytes [BAD Ethernet length: shorter than 14 bytes]"},
		{"short ip", AppendEth(nil, MAC{1}, MAC{2}, EtherIPv4), Options{}, "02:00:00:00:00:00 > 01:00:00:00:00:00 IPv4 len 0 [BAD IPv4 length: shorter than 20 bytes]"},
		{"reserved type", uetFrame(base, []byte{0x78, 0}), Options{}, "10.0.0.1 > 10.0.0.5 UET RESERVED_15 ev 4711 [BAD PDS prologue type: is reserved]"},
		{"short ses", uetFrame(base, append(bytes.Clone(data[42:54]), 5)), Options{}, "… ev 4711 [BAD SES request length: shorter than its header]"},
	} {
		p := Decode(c.frame, c.opt)
		got := p.Summary()
		switch {
		case c.name == "bad crc":
			if !strings.HasSuffix(got, "[BAD UET CRC crc32c: does not fit the packet]") || p.CRC != CRCBad {
				t.Errorf("bad crc: %s", got)
			}
		case strings.HasPrefix(c.want, "…"):
			if !strings.HasSuffix(got, c.want[len("…"):]) {
				t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
			}
		case got != c.want:
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
	if p := Decode(badCRC, Options{CRC: CRCOn}); p.CRC != CRCBad || len(p.SES.Payload) != 4096 {
		t.Error("CRCOn does not see the bad CRC")
	}
	if p := Decode(data, Options{CRC: CRCOff}); p.CRC != CRCNone || len(p.SES.Rest) != 4 {
		t.Error("CRCOff takes off a CRC")
	}
}
