package wire

import (
	"errors"
	"strconv"
)

// line is a text line under construction.
type line []byte

// word adds s, with a space between words.
func (l *line) word(s string) {
	if len(*l) > 0 {
		*l = append(*l, ' ')
	}
	*l = append(*l, s...)
}

func (l *line) wordIf(on bool, s string) {
	if on {
		l.word(s)
	}
}

// num adds a name and a number.
func (l *line) num(name string, v uint64) {
	l.word(name)
	*l = strconv.AppendUint(append(*l, ' '), v, 10)
}

// start adds how far a PSN lies behind Start_PSN: "(start+3)".
func (l *line) start(offset uint16) {
	l.word("(start+" + strconv.Itoa(int(offset)) + ")")
}

func (l *line) hex(name string, v uint64) {
	l.word(name)
	*l = strconv.AppendUint(append(*l, " 0x"...), v, 16)
}

// Summary returns one readable line in the manner of tcpdump. What is wrong with the packet stands at the end, in
// brackets.
func (p *Packet) Summary() string {
	l := make(line, 0, 160)
	p.network(&l)
	if p.CRC == CRCBad {
		l.hex("crc", uint64(p.CRCValue))
	}
	for _, err := range p.Errs {
		var fe *FieldError
		if errors.As(err, &fe) {
			l.word("[BAD " + fe.Header + " " + fe.Field + ": " + fe.Why + "]")
		} else {
			l.word("[BAD " + err.Error() + "]")
		}
	}
	return string(l)
}

func (p *Packet) network(l *line) {
	switch {
	case p.UET && p.Eth == nil:
		p.uetLine(l)
	case p.IPv4 != nil:
		p.ipLine(l, p.IPv4.Src().String(), p.IPv4.Dst().String(), p.IPv4.Proto(), p.IPv4.ECN(), p.IPv4.Payload())
	case p.IPv6 != nil:
		p.ipLine(l, p.IPv6.Src().String(), p.IPv6.Dst().String(), p.IPv6.Proto(), p.IPv6.ECN(), p.IPv6.Payload())
	case p.Eth == nil:
		l.num("frame of", uint64(len(p.Frame)))
		l.word("bytes")
	case p.Type == EtherARP:
		arpLine(l, p.Body)
	default:
		l.word(p.Eth.Src().String() + " > " + p.Eth.Dst().String() + " " + p.Type.String())
		if !p.linkLine(l) {
			l.num("len", uint64(len(p.Body)))
		}
	}
}

func (p *Packet) ipLine(l *line, src, dst string, proto, ecn uint8, body []byte) {
	ports := p.UDP != nil && !p.UET
	if tcp := proto == ProtoTCP && len(body) >= 20; ports || tcp {
		src += ":" + strconv.Itoa(int(u16(body, 0)))
		dst += ":" + strconv.Itoa(int(u16(body, 2)))
	}
	l.word(src + " > " + dst)
	switch {
	case p.UET:
		p.uetLine(l)
	case p.IPv4 != nil && fragmentLine(l, p.IPv4):
	case p.UDP != nil:
		l.word("UDP")
		l.num("len", uint64(p.UDP.Len()-UDPLen))
	case proto == ProtoTCP:
		tcpLine(l, body)
	case proto == ProtoICMP:
		icmpLine(l, "ICMP", body, icmp4Names)
	case proto == ProtoICMPv6:
		icmpLine(l, "ICMP6", body, icmp6Names)
	default:
		l.num("IP proto", uint64(proto))
		l.num("len", uint64(len(body)))
	}
	l.wordIf(ecn == ECNCE, "CE")
	l.wordIf(p.Trimmed, "TRIMMED")
}

func fragmentLine(l *line, ip IPv4) bool {
	frag, off := ip.Fragment()
	if !frag {
		return false
	}
	l.num("fragment of", uint64(ip.ID()))
	l.num("off", uint64(off))
	l.num("len", uint64(len(ip.Payload())))
	return true
}

func arpLine(l *line, b []byte) {
	l.word("ARP")
	if len(b) < 28 || u16(b, 0) != 1 || u16(b, 2) != uint16(EtherIPv4) || u16(b, 4) != 0x0604 {
		l.word("[BAD ARP header: not Ethernet and IPv4, or shorter than 28 bytes]")
		return
	}
	quad := func(off int) string {
		return strconv.Itoa(int(b[off])) + "." + strconv.Itoa(int(b[off+1])) + "." + strconv.Itoa(int(b[off+2])) + "." +
			strconv.Itoa(int(b[off+3]))
	}
	switch u16(b, 6) {
	case 1:
		l.word("who-has " + quad(24) + " tell " + quad(14))
	case 2:
		l.word(quad(14) + " is-at " + MAC(b[8:14]).String())
	default:
		l.num("op", uint64(u16(b, 6)))
	}
}

func tcpLine(l *line, b []byte) {
	l.word("TCP")
	if len(b) < 20 || int(b[12]>>4)*4 < 20 || int(b[12]>>4)*4 > len(b) {
		l.word("[BAD TCP header: shorter than 20 bytes, or than its data offset says]")
		return
	}
	flags := []byte{'['}
	for i, c := range "FSRP.UEW" {
		if b[13]>>i&1 != 0 {
			flags = append(flags, byte(c))
		}
	}
	l.word(string(append(flags, ']')))
	l.num("seq", uint64(u32(b, 4)))
	if b[13]&0x10 != 0 {
		l.num("ack", uint64(u32(b, 8)))
	}
	l.num("win", uint64(u16(b, 14)))
	l.num("len", uint64(len(b)-int(b[12]>>4)*4))
}

var icmp4Names = map[uint8]string{ICMP4EchoReply: "echo reply", ICMP4Unreachable: "unreachable",
	ICMP4EchoRequest: "echo request", ICMP4TimeExceeded: "time exceeded", 5: "redirect"}

var icmp6Names = map[uint8]string{ICMP6Unreachable: "unreachable", ICMP6PacketTooBig: "packet too big",
	ICMP6TimeExceeded: "time exceeded", ICMP6EchoRequest: "echo request", ICMP6EchoReply: "echo reply",
	133: "router solicitation", 134: "router advertisement", 135: "neighbor solicitation", 136: "neighbor advertisement",
	143: "multicast listener report"}

func icmpLine(l *line, proto string, b []byte, names map[uint8]string) {
	l.word(proto)
	m, err := ParseICMP(b)
	if err != nil {
		l.word("[BAD ICMP length: shorter than 8 bytes]")
		return
	}
	what, known := names[m.Type()]
	if !known {
		l.num("type", uint64(m.Type()))
	}
	l.wordIf(known, what)
	if what == "echo request" || what == "echo reply" {
		l.num("id", uint64(m.ID()))
		l.num("seq", uint64(m.Seq()))
	} else if m.Code() != 0 {
		l.num("code", uint64(m.Code()))
	}
	l.num("len", uint64(len(b)))
}
