package wireshark

import (
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// TestCSIG shows tags of both forms before IPv4 and IPv6, whole and cut off.
func TestCSIG(t *testing.T) {
	tag := func(f wire.CSIGFields) []byte {
		b, _ := wire.InsertCSIG(slices.Clone(frameOf(fromA, request(psn0, wire.ReqSYN))), &f)
		return b
	}
	frames := [][]byte{
		tag(wire.CSIGFields{Type: wire.CSIGDelay, Signal: 21, Locator: 43, Trimmed: true}),
		tag(wire.CSIGFields{Wide: true, Type: wire.CSIGABWShare, Signal: 703710, Locator: 23100}),
	}
	want := []string{"csig.t=2 csig.s=21 csig.lm=43 csig.d=1 csig.type=2048 pds.psn=4294967295", "csig.t=1 csig.s=703710 csig.lm=23100 csig.d=0 csig.type=2048 pds.psn=4294967295"}
	for i := range frames {
		frames[i] = wire.AppendTrailer(frames[i], int64(i), 0)
	}
	for i, p := range tshark(t, append(frames, tag(wire.CSIGFields{Wide: true})[:18])) {
		if i == len(want) {
			if len(p["uet.csig.t"]) != 0 {
				t.Errorf("a tag that is cut off shows %v", p)
			}
			break
		}
		for _, w := range strings.Fields(want[i]) {
			name, value, _ := strings.Cut(w, "=")
			if got := p["uet."+name]; len(got) != 1 || canon(got[0]) != value {
				t.Errorf("frame %d: %s = %v, want %s", i+1, name, got, value)
			}
		}
		p.number(t, "trailer.due", uint64(i))
		sound(t, p, false)
	}
}
