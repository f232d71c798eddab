package wireshark

import (
	"strconv"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// lldpFrames are what ports say: with a CBFC receiver of three channels, with options alone, good-bye, and a TLV of the UEC that is cut.
func lldpFrames() [][]byte {
	mac := wire.MAC{2, 0, 0, 0, 1, 3}
	begin := func(ttl uint16) []byte {
		return wire.AppendLLDP(nil, &wire.LLDPFields{Src: mac, ChassisSubtype: wire.LLDPChassisMAC, Chassis: mac[:], PortSubtype: wire.LLDPPortIfName, Port: []byte("eth3"), TTL: ttl})
	}
	options := &wire.UEOptionsFields{LLRWanted: wire.WishBoth, LLREnabled: wire.WishBoth, CBFCWanted: wire.WishBoth, SpecVersion: wire.UESpecVersion, Echo: 0xA5, Life: 37,
		LabFlags: wire.LabTrailer | wire.LabCBFCReady, BootID: 0xDEADBEEF}
	full := wire.AppendLLDPCapabilities(wire.AppendTLV(begin(4), wire.LLDPSysName, []byte("leaf0")), wire.LLDPCapBridge|wire.LLDPCapRouter, wire.LLDPCapBridge)
	full = wire.AppendUEOptions(wire.AppendLLDPManagement(full, []byte{10, 0, 0, 1}, 3), options)
	full = wire.AppendUECBFC(full, &wire.UECBFCFields{CreditSize: 256, PktOvhd: -4, Method: wire.CBFCPerVC, Total: 70_000, Lossless: 0x80000003,
		VCs: []wire.CBFCVC{{Index: 0, Limit: 0xFFFFFF, Value: 10, Mask: 63}, {Index: 1, Limit: 5, Map: wire.VCMapPCP, Value: 3, Mask: 7}, {Index: 31, Limit: 1000}}})
	cut := wire.AppendTLV(begin(4), wire.LLDPOrg, []byte{0xFA, 0x7A, 0xCB, wire.UESubtypeOptions, 0xF0})
	return [][]byte{wire.AppendLLDPEnd(full), wire.AppendLLDPEnd(wire.AppendUEOptions(begin(4), options)), wire.AppendLLDPEnd(begin(0)), wire.AppendLLDPEnd(cut)}
}

// ueFields are the fields of the UEC's TLVs as the Go decoder has them, by name without numbers, in the order of the frame.
func ueFields(frame []byte) map[string][]string {
	p, want := wire.Decode(frame, wire.Options{}), map[string][]string{}
	ue := map[string]bool{}
	for i, t := range p.LLDP {
		if t.OUI() == wire.UECID {
			ue[strconv.Itoa(i)] = true
		}
	}
	for _, f := range p.Flat() {
		tlv, name, numbered := strings.Cut(f.Name, ".")
		if !numbered || !ue[tlv] {
			continue
		}
		if n, rest, ok := strings.Cut(name, "."); ok && strings.Trim(n, "0123456789") == "" {
			name = rest // of a further channel
		}
		if v, ok := f.Value.(uint64); ok {
			want[name] = append(want[name], strconv.FormatUint(v, 10))
		}
	}
	return want
}

// TestLLDPShowsTheTLVsOfTheUEC compares what tshark shows of them, by name, with the Go decoder; Wireshark's own LLDP stays.
func TestLLDPShowsTheTLVsOfTheUEC(t *testing.T) {
	frames := lldpFrames()
	var sent [][]byte
	for _, f := range frames {
		sent = append(sent, wire.AppendTrailer(f[:len(f):len(f)], 1000, 0))
	}
	packets := tshark(t, sent)
	for i, p := range packets {
		want := ueFields(frames[i])
		if i == 0 && (len(want["vc.limit"]) != 3 || len(want["lldp.boot_id"]) != 1) {
			t.Fatalf("the Go decoder finds %v", want)
		}
		if i < 3 {
			sound(t, p, false)
			for name, values := range want {
				got := p["uet."+name]
				for k := range got {
					got[k] = canon(got[k])
				}
				if strings.Join(got, " ") != strings.Join(values, " ") {
					t.Errorf("frame %d: %s is %v, want %v", i, name, got, values)
				}
			}
			for name := range p {
				if n := strings.TrimPrefix(name, "uet."); n != name && want[n] == nil && !strings.HasPrefix(n, "trailer.") {
					t.Errorf("frame %d: %s = %v is shown", i, name, p[name])
				}
			}
		} else if len(p["uet.truncated"]) == 0 {
			t.Errorf("frame %d: a TLV is cut, and nothing says so", i)
		}
		if len(p["lldp.chassis.id.mac"]) != 1 || len(p["lldp.port.id"]) != 1 || len(p["uet.trailer.due"]) != 1 {
			t.Errorf("frame %d: chassis %v, port %v, trailer %v", i, p["lldp.chassis.id.mac"], p["lldp.port.id"], p["uet.trailer.due"])
		}
	}
}
