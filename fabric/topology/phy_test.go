package topology

import (
	"bytes"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
)

// TestPHYOfATopology reads what a link is like below FEC, prints it again, and refuses what it cannot be.
func TestPHYOfATopology(t *testing.T) {
	const text = `name: x
fabric: {kind: star, hosts: 4}
defaults: {link: {ucr: 1e-6, fec: {interleave: 2}}}
links:
  - {endpoints: [host0, leaf0], rawBer: 2e-4}
  - {endpoints: [host1, leaf0], ucr: 0, fec: {interleave: auto}}
  - {endpoints: [host2, leaf0], ucr: 0.5, fec: {interleave: 4}}
`
	p, err := planText(t, text)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]PHY{"host0-leaf0": {1e-6, 2e-4, 2}, "host1-leaf0": {}, "host2-leaf0": {0.5, 0, 4}, "host3-leaf0": {1e-6, 0, 2}} {
		id, _, err := p.FindLink(name)
		if err != nil {
			t.Fatal(err)
		}
		l := &p.Links[id]
		for _, e := range []End{l.A, l.B} {
			if q := &p.Nodes[e.Node].Ports[e.Port]; l.PHY != want || q.PHY != want || q.Impair() != l.Impair() || l.Impair() != (link.Impair{UCR: want.UCR, RawBER: want.RawBER}) {
				t.Errorf("%s: %+v, %+v; want %+v", name, l.PHY, q.PHY, want)
			}
		}
	}
	s, err := Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again", s.YAML())
	if err != nil || !bytes.Equal(again.YAML(), s.YAML()) {
		t.Errorf("%v\n%s", err, s.YAML())
	}
	for text, why := range map[string]string{"ucr: 1.5": "out of range", "rawBer: 0.7": "out of range", "rawber: 1e-4": "rawBer", "fec: {interleave: 3}": "auto, 1, 2 or 4", "fec: {interleave: x}": "auto, 1, 2 or 4",
		"fec: {interleve: 2}": "interleave", "fec: 2": "fec"} {
		if _, err := planText(t, "name: x\nfabric: {kind: pair}\ndefaults: {link: {"+text+"}}\n"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
