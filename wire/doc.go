// Package wire holds the codecs of everything uetlab puts on a link: Ethernet II, IPv4, IPv6, UDP, ICMP, the Ultra
// Ethernet headers (PDS, SES, the outer TSS header, the CRC trailer), the link control frames of LLR and CBFC, LLDP, and the
// 24-byte uetlab link trailer.
//
// A header is a view: a named byte slice whose accessors read and write the bytes in place, without copy and without
// allocation. ParseX checks the length and the type, and returns the view cut to the header, so that b[len(view):] is
// what follows. Accessors of a view that did not come from a ParseX may panic on short input. AppendX writes a header
// from a small value struct. Validate looks at the contents and names the field that is wrong; it is strict, while a
// receiver of live traffic ignores reserved bits (uet-wire 0.1) and need not call it.
//
// Tables describes every header bit by bit, for whoever shows packets or generates code; Packet.Flat reads through it, and
// the tests hold the accessors to it.
//
// Decode, Packet.Flat and Packet.Summary take a whole frame apart for people and tests; they allocate and have no place
// in a data path.
//
// The package refuses to hold state, to look at clocks or sockets, and to encrypt: behaviour belongs to fep and switchd,
// TSS sealing to fep/tss. Layouts follow docs/spec/uet-wire.md and uet-link-switch.md (called "uet-wire" and
// "uet-link-switch" in the comments; UE 1.0.3).
package wire

// Header sizes in bytes, and numbers of the encapsulation (uet-wire 1).
const (
	EthLen     = 14 // Ethernet II without tags
	VLANLen    = 4  // one 802.1Q tag
	IPv4Len    = 20 // without options
	IPv6Len    = 40
	UDPLen     = 8
	EntropyLen = 4 // native-IP entropy header
	CRCLen     = 4 // UET CRC trailer
	ICVLen     = 16
	TrailerLen = 24 // uetlab link trailer

	UDPPort = 4793 // UET over UDP, destination port

	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
	ProtoNative = 253 // default number of UET straight over IP; IANA has assigned none
)

// ECN code points of the IP header (RFC 3168).
const (
	ECNNotECT = 0
	ECNECT1   = 1
	ECNECT0   = 2
	ECNCE     = 3
)
