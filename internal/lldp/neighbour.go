package lldp

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Neighbour is what the far end says of itself. Its texts hold nothing that is not printable.
type Neighbour struct {
	ChassisSubtype, PortSubtype uint8
	Chassis, Port               string // MAC addresses in the usual form

	Since, Heard, Expires vt.Time // when it appeared, was last heard of, and will be forgotten
	TTL                   time.Duration

	System, SystemDesc, PortDesc string
	Can, Enabled                 uint16 // wire.LLDPCap…
	Addresses                    []netip.Addr
	IfIndex                      uint32 // of the last of Addresses

	Options *wire.UEOptionsFields // nil if it says nothing of LLR and CBFC
	CBFC    *wire.UECBFCFields    // nil if it has no CBFC receiver
	Unknown int                   // TLVs that nobody here can read
}

// Receive takes a frame without link trailer and FCS, of whatever bytes.
func (a *Agent) Receive(now vt.Time, frame []byte) Change {
	eth, err := wire.ParseEth(frame)
	if err != nil || eth.Type() != wire.EtherLLDP {
		a.C[Discarded]++
		return 0
	}
	unit := frame[wire.EthLen:]
	if a.peer != nil && bytes.Equal(unit, a.said) {
		a.C[Rx]++
		a.again(now)
		a.hear(now)
		return 0
	}
	list, err := wire.ParseLLDP(unit)
	if err != nil && !endless(list, unit) {
		a.C[Discarded]++
		return 0
	}
	a.C[Rx]++
	return a.learn(now, list, unit)
}

// endless says whether a data unit is whole but for its End TLV, which IEEE 802.1AB lets senders leave out.
func endless(list []wire.TLV, unit []byte) bool {
	n := 0
	for _, t := range list {
		n += len(t)
	}
	return len(list) >= 3 && n == len(unit)
}

func (a *Agent) hear(now vt.Time) {
	a.peer.Heard, a.peer.Expires = now, now.Add(a.peer.TTL)
}

// learn takes what a frame says in the place of what was known. list has the three TLVs that must be there.
func (a *Agent) learn(now vt.Time, list []wire.TLV, unit []byte) (c Change) {
	n := a.read(list)
	was := a.peer
	if was != nil && !was.same(n) { // another device: there is one at a time at the end of a cable
		if n.TTL == 0 {
			return 0
		}
		c |= a.forget(now)
		was = nil
	}
	if n.TTL == 0 {
		if was != nil {
			c |= a.forget(now)
		}
		return c
	}
	n.Since = now
	switch {
	case was == nil:
		a.C[Inserted]++
		c |= NeighbourNew
	case was.Options != nil && n.Options != nil && was.Options.BootID != n.Options.BootID:
		a.C[Restarts]++
		c |= PeerRestarted | CreditsRestart | NeighbourChanged | AgreementChanged
	default:
		n.Since = was.Since
		c |= NeighbourChanged
		if was.Options != nil && n.Options != nil && was.Options.Life != n.Options.Life {
			c |= CreditsRestart | AgreementChanged
		}
	}
	a.peer, a.said = n, append(a.said[:0], unit...)
	a.hear(now)
	if c&(NeighbourNew|CreditsRestart) != 0 {
		a.answer(now)
	}
	return c | a.settle(now)
}

func (a *Agent) forget(now vt.Time) Change {
	a.peer = nil
	a.C[Deleted]++
	return NeighbourGone | a.settle(now)
}

// same says whether both are the same port of the same device.
func (n *Neighbour) same(o *Neighbour) bool {
	return n.ChassisSubtype == o.ChassisSubtype && n.Chassis == o.Chassis && n.PortSubtype == o.PortSubtype && n.Port == o.Port
}

// read makes a neighbour of a data unit.
func (a *Agent) read(list []wire.TLV) *Neighbour {
	chassis, port := list[0], list[1]
	n := &Neighbour{ChassisSubtype: chassis.Subtype(), PortSubtype: port.Subtype(), TTL: time.Duration(list[2].TTL()) * time.Second}
	n.Chassis = id(chassis, wire.LLDPChassisMAC)
	n.Port = id(port, wire.LLDPPortMAC)
	var seen [wire.LLDPManagement]bool
	for _, t := range list[3:] {
		k := t.Type()
		if k >= wire.LLDPPortDesc && k <= wire.LLDPSysCap {
			if seen[k] {
				a.C[TLVBad]++
				continue
			}
			seen[k] = true
		}
		a.readTLV(n, t)
	}
	return n
}

func (a *Agent) readTLV(n *Neighbour, t wire.TLV) {
	ok := true
	switch t.Type() {
	case wire.LLDPEnd:
	case wire.LLDPPortDesc:
		n.PortDesc = text(t.Value())
	case wire.LLDPSysName:
		n.System = text(t.Value())
	case wire.LLDPSysDesc:
		n.SystemDesc = text(t.Value())
	case wire.LLDPSysCap:
		n.Can, n.Enabled = t.Capabilities()
		ok = len(t.Value()) >= 4
	case wire.LLDPManagement:
		addr, index := t.Management()
		var ip netip.Addr
		if ip, ok = netip.AddrFromSlice(addr); ok {
			n.Addresses, n.IfIndex = append(n.Addresses, ip), index
		}
	case wire.LLDPOrg:
		ok = a.readUE(n, t)
	default:
		n.Unknown++
		a.C[TLVUnknown]++
	}
	if !ok {
		a.C[TLVBad]++
	}
}

// readUE takes a TLV of the UEC. Of several of a kind the first counts.
func (a *Agent) readUE(n *Neighbour, t wire.TLV) (ok bool) {
	if t.OUI() == wire.UECID && t.Subtype() == wire.UESubtypeOptions {
		o, err := wire.ParseUEOptions(t)
		if err != nil || n.Options != nil {
			return false
		}
		f := o.Fields()
		n.Options = &f
		return true
	}
	if t.OUI() == wire.UECID && t.Subtype() == wire.UESubtypeCBFC {
		c, err := wire.ParseUECBFC(t)
		if err != nil || c.Validate() != nil || n.CBFC != nil {
			return false
		}
		f := c.Fields()
		n.CBFC = &f
		return true
	}
	n.Unknown++
	a.C[TLVUnknown]++
	return true
}

// id is a chassis or port ID as text.
func id(t wire.TLV, mac uint8) string {
	b := t.ID()
	if t.Subtype() == mac && len(b) == 6 {
		return wire.MAC(b).String()
	}
	return text(b)
}

// text makes the bytes of a stranger fit for a terminal.
func text(b []byte) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(b))
}

func sameCBFC(a, b *wire.UECBFCFields) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CreditSize == b.CreditSize && a.PktOvhd == b.PktOvhd && a.Method == b.Method && a.Total == b.Total && a.Lossless == b.Lossless && slices.Equal(a.VCs, b.VCs)
}

// Capabilities names what a mask of wire.LLDPCap… has: "Bridge, Router".
func Capabilities(mask uint16) string {
	var names []string
	for i, s := range [...]string{"Other", "Repeater", "Bridge", "WLAN access point", "Router", "Telephone", "DOCSIS cable device", "Station only", "C-VLAN", "S-VLAN", "Two-port MAC relay"} {
		if mask>>i&1 != 0 {
			names = append(names, s)
		}
	}
	if rest := mask >> 11; rest != 0 {
		names = append(names, fmt.Sprintf("reserved %#x", rest<<11))
	}
	return strings.Join(names, ", ")
}
