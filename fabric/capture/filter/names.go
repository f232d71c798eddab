package filter

import "sort"

// constants are the named numbers of arithmetic expressions (pcap-filter(7)): offsets of fields, flags and types.
var constants = map[string]uint32{
	"tcpflags": 13,
	"tcp-fin":  0x01, "tcp-syn": 0x02, "tcp-rst": 0x04, "tcp-push": 0x08, "tcp-ack": 0x10, "tcp-urg": 0x20,
	"tcp-ece": 0x40, "tcp-cwr": 0x80,

	"icmptype": 0, "icmpcode": 1,
	"icmp-echoreply": 0, "icmp-unreach": 3, "icmp-sourcequench": 4, "icmp-redirect": 5, "icmp-echo": 8,
	"icmp-routeradvert": 9, "icmp-routersolicit": 10, "icmp-timxceed": 11, "icmp-paramprob": 12, "icmp-tstamp": 13,
	"icmp-tstampreply": 14, "icmp-ireq": 15, "icmp-ireqreply": 16, "icmp-maskreq": 17, "icmp-maskreply": 18,

	"icmp6type": 0, "icmp6code": 1,
	"icmp6-destinationunreach": 1, "icmp6-packettoobig": 2, "icmp6-timeexceeded": 3, "icmp6-parameterproblem": 4,
	"icmp6-echo": 128, "icmp6-echoreply": 129, "icmp6-multicastlistenerquery": 130,
	"icmp6-multicastlistenerreportv1": 131, "icmp6-multicastlistenerdone": 132, "icmp6-routersolicit": 133,
	"icmp6-routeradvert": 134, "icmp6-neighborsolicit": 135, "icmp6-neighboradvert": 136, "icmp6-redirect": 137,
	"icmp6-multicastlistenerreportv2": 143,
}

// EtherTypes and LLC service access points with a meaning here.
const (
	etherIP   = 0x0800
	etherARP  = 0x0806
	etherRARP = 0x8035
	etherIP6  = 0x86dd
	etherIPX  = 0x8137
	etherMax  = 1500 // up to here the field is a length, and LLC follows

	etherAARP  = 0x80f3
	etherATalk = 0x809b

	sapIP      = 0x06
	sapISO     = 0xfe
	sapNetBEUI = 0xf0
	sapIPX     = 0xe0
)

// etherTypes are the names after ether proto.
var etherTypes = map[string]uint32{
	"ip": etherIP, "arp": etherARP, "rarp": etherRARP, "ip6": etherIP6, "lat": 0x6004, "decnet": 0x6003,
	"moprc": 0x6002, "mopdl": 0x6001, "sca": 0x6007, "loopback": 0x9000, "iso": sapISO, "stp": 0x42,
	"ipx": sapIPX, "netbeui": sapNetBEUI, "lldp": 0x88cc, "vlan": 0x8100,
}

// IP protocol numbers that the compiler itself knows.
const (
	ipTCP      = 6
	ipUDP      = 17
	ipSCTP     = 132
	ipICMP6    = 58
	ipFragment = 44
)

// ipProtocols are the names after proto, ip proto and ip6 proto.
var ipProtocols = map[string]uint32{
	"icmp": 1, "igmp": 2, "ipencap": 4, "tcp": ipTCP, "igrp": 9, "egp": 8, "udp": ipUDP, "ipv6": 41, "rsvp": 46,
	"gre": 47, "esp": 50, "ah": 51, "icmp6": ipICMP6, "ipv6-icmp": ipICMP6, "eigrp": 88, "ospf": 89, "ipip": 94,
	"pim": 103, "vrrp": 112, "carp": 112, "sctp": ipSCTP, "udplite": 136,
}

// services are the names after port; the ones that meet people in a lab, not a copy of /etc/services.
var services = map[string]uint32{
	"ftp-data": 20, "ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "bootps": 67, "bootpc": 68,
	"tftp": 69, "http": 80, "kerberos": 88, "ntp": 123, "snmp": 161, "snmp-trap": 162, "bgp": 179, "ldap": 389,
	"https": 443, "syslog": 514, "ldaps": 636, "nfs": 2049, "mysql": 3306, "bfd-control": 3784, "vxlan": 4789,
	"roce": 4791, "uet": uetPort, "iperf": 5001, "iperf3": 5201, "mdns": 5353, "postgresql": 5432,
}

// uetPort is the UDP destination port of UET (uet-wire.md 1).
const uetPort = 4793

// unsupported are words of pcap-filter(7) that this package knows and refuses, with what to do instead.
var unsupported = map[string]string{
	"gateway": `write "ether host MAC and not host ADDRESS"`,
	"protochain": "header chains need loops, which a filter in the kernel cannot have; " +
		`write "ip6 proto N" or test bytes with ip6[40]`,
	"inbound":  "a capture already has one interface per direction",
	"outbound": "a capture already has one interface per direction",
	"ifname":   "name the link on the command line instead",
	"on":       "name the link on the command line instead",
	"mpls":     `write "ether proto 0x8847"`,
	"pppoed":   `write "ether proto 0x8863"`,
	"pppoes":   `write "ether proto 0x8864"`,
	"geneve":   `write "udp port 6081"`,
	"atalk":    `write "ether proto 0x809b"`,
	"aarp":     `write "ether proto 0x80f3"`,
	"decnet":   `write "ether proto 0x6003"`,
	"iso":      `write "ether proto 0xfe"`,
	"stp":      `write "ether proto 0x42"`,
	"ipx":      `write "ether proto 0xe0"`,
	"netbeui":  `write "ether proto 0xf0"`,
	"llc":      `test bytes with ether[14]`,
	"wlan":     "links here are Ethernet",
	"ppp":      "links here are Ethernet",
	"fddi":     "links here are Ethernet",
}

// qualifiers and other reserved words that are not protocols.
var reserved = map[string]bool{
	"src": true, "dst": true, "host": true, "net": true, "port": true, "portrange": true, "proto": true, "mask": true,
	"and": true, "or": true, "not": true, "broadcast": true, "multicast": true, "less": true, "greater": true,
	"len": true, "vlan": true, "uet": true,
}

// keyword reports whether a word is part of the language, so that it cannot be a name unless escaped.
func keyword(w string) bool {
	_, isProto := protocols[w]
	_, refused := unsupported[w]
	return isProto || refused || reserved[w]
}

// nearest returns the word of the language that is closest to w, or "" if none is close.
func nearest(w string, among []string) string {
	best, dist := "", len(w)/3+1
	for _, k := range among {
		if d := distance(w, k); d <= dist && (best == "" || d < dist) {
			best, dist = k, d
		}
	}
	return best
}

// words returns the keys of a table in order, so that messages are the same every time.
func words[V any](tables ...map[string]V) []string {
	var all []string
	for _, t := range tables {
		for k := range t {
			all = append(all, k)
		}
	}
	sort.Strings(all)
	return all
}

// vocabulary lists all words with which a term may begin.
func vocabulary() []string {
	return append(words(protocols), words(reserved)...)
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to come from a to b; a change of
// case costs nothing.
func distance(a, b string) int {
	if len(a) > 32 || len(b) > 32 {
		return 32
	}
	var d [33][33]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
				continue
			case lower(a[i-1]) == lower(b[j-1]):
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j-1], d[i-1][j], d[i][j-1])
			}
			if i > 1 && j > 1 && lower(a[i-1]) == lower(b[j-2]) && lower(a[i-2]) == lower(b[j-1]) {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
