package fep

import (
	"net/netip"

	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// onTrimmed answers a request whose payload a switch cut off (uet-pds-ses.md 10.1): it was lost, and its source is told so at
// once. Nobody has vouched for what is left of the packet, so it opens no PDC, moves no window and reaches no message.
func (f *FEP) onTrimmed(now vt.Time, in *wire.Inbound, src netip.Addr) {
	f.C[Trimmed]++
	if !in.Type().IsRequest() {
		return
	}
	r, err := wire.ParseRequest(in.UET)
	if err != nil || r.SPDCID() == 0 {
		f.C[Malformed]++
		return
	}
	code := wire.NackTrimmed
	if in.DSCP == f.cfg.DSCPTrimmedLastHop {
		code = wire.NackTrimmedLastHop
	}
	a := &f.arr
	*a = arrival{in: in, uet: in.UET, src: src}
	p := f.trimmedPDC(r, src)
	if p == nil {
		if r.SYN() {
			f.nack(code, a, r, nil)
		} else {
			f.C[UnknownPDCID]++
		}
		return
	}
	span := mpRange(f.cfg.MPR)
	switch off := r.PSN().Diff(p.d.base); {
	case p.state != Established || off < -span || off >= span:
		f.C[StaleAck]++
	case off < 0 || p.d.got.has(r.PSN()):
		f.C[DupRx]++
		p.ackDuplicate(now, in.EV, in.ECN == wire.ECNCE, r.RETX(), r.PSN())
	default:
		f.nack(code, a, r, p)
	}
}

// trimmedPDC finds the PDC that a trimmed request belongs to, nil if there is none.
func (f *FEP) trimmedPDC(r wire.Request, src netip.Addr) *pdc {
	if r.SYN() {
		p := f.bySYN[synKey{src, r.SPDCID()}]
		if p == nil || p.d.start != r.StartPSN() {
			return nil
		}
		return p
	}
	p := f.pdcs.get(r.DPDCID())
	if p == nil || p.initiator || p.peer != src || p.peerID != r.SPDCID() {
		return nil
	}
	return p
}

// mended gives a trimmed IP packet its real length where a switch has left the old one, as some do (uet-link-switch.md 5.3),
// and says whether it did.
func (f *FEP) mended(frame []byte) bool {
	t, ip, err := wire.Network(frame)
	if err != nil || len(ip) < wire.IPv4Len {
		return false
	}
	switch {
	case t == wire.EtherIPv4 && ip[0]>>4 == 4 && f.trimmedDSCP(ip[1]>>2):
		if p := wire.IPv4(ip); p.TotalLen() > len(ip) {
			p.SetTotalLen(len(ip))
			return true
		}
	case t == wire.EtherIPv6 && len(ip) >= wire.IPv6Len && ip[0]>>4 == 6 && f.trimmedDSCP(ip[0]<<2&0x3C|ip[1]>>6):
		if p := wire.IPv6(ip); p.TotalLen() > len(ip) {
			p.SetTotalLen(len(ip))
			return true
		}
	}
	return false
}

func (f *FEP) trimmedDSCP(d uint8) bool {
	return d == f.cfg.DSCPTrimmed || d == f.cfg.DSCPTrimmedLastHop
}
