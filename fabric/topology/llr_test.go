package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/link/llr"
)

func planText(t *testing.T, text string) (*Plan, error) {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return BuildPlan(s)
}

// TestLLROfATopology reads link layer retry in all its forms, and works out what is not said from rate and delay.
func TestLLROfATopology(t *testing.T) {
	p, err := planText(t, `name: x
fabric: {kind: star, hosts: 6}
defaults: {link: {llr: {replayCount: 255, ackEvery: 4KiB}, ber: 1e-8}}
links:
  - {endpoints: [host0, leaf0], llr: off}
  - {endpoints: [host1, leaf0], rate: 800Gbps, llr: {replayTimer: 7us, dataAge: 0ns, init: block, flush: discard, reInit: false, window: 10, buffer: 20000B, pcsLost: 0ns, ackDelay: 2us}}
  - {endpoints: [host2, leaf0], delay: 50us}
  - {endpoints: [host3, leaf0], ber: 0.000001}
  - {endpoints: [host4, leaf0], llr: on}
nodes:
  host5: {kind: host}
`)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) *Link {
		id, _, err := p.FindLink(name)
		if err != nil {
			t.Fatal(err)
		}
		l := &p.Links[id]
		for _, e := range []End{l.A, l.B} {
			if q := &p.Nodes[e.Node].Ports[e.Port]; q.LLR != l.LLR || q.BER != l.BER {
				t.Errorf("port %s of %s: not as its link", q.Name, name)
			}
		}
		if l.LLR != nil && l.LLR.Validate() != nil {
			t.Errorf("%s: %v", name, l.LLR.Validate())
		}
		if c := p.Retry(id); c == nil || c.Validate() != nil {
			t.Errorf("%s: turned on it would be %+v", name, c)
		}
		return l
	}
	if of("host0-leaf0").LLR != nil || of("host5-leaf0").LLR != nil {
		t.Error("LLR where it is off, or at a plain host")
	}
	if c := *of("host1-leaf0").LLR; c != (llr.Config{Frames: 10, Bytes: 20_000, ReplayTimer: 7 * time.Microsecond, ReplayCount: 255, Init: llr.Block, Flush: llr.Discard, AckEvery: 4096, AckDelay: 2 * time.Microsecond}) {
		t.Errorf("all said: %+v", c)
	}
	usual, long := of("host4-leaf0").LLR, of("host2-leaf0").LLR
	if usual.ReplayTimer != 5*time.Microsecond || usual.ReplayCount != 255 || usual.DataAge != 0 || usual.PCSLost != 50*time.Microsecond || !usual.ReInit || usual.AckEvery != 4096 {
		t.Errorf("usual: %+v", usual)
	}
	if long.ReplayTimer < 200*time.Microsecond || long.Bytes < 2*50_000*100 || long.Frames <= usual.Frames || usual.Bytes < 64<<10 {
		t.Errorf("on a long link: %+v; on a short one %+v", long, usual)
	}
	if of("host3-leaf0").BER != 1e-6 || of("host4-leaf0").BER != 1e-8 {
		t.Error("bit error rates are not those of the file")
	}
	for text, why := range map[string]string{"llr: maybe": "not one of", "llr: {windw: 3}": "window", "ber: 1e-8x": "not a probability", "ber: 0.7": "out of range", "ber: \"2\"": "out of range",
		"llr: {replayCount: 256}": "out of range", "llr: {init: perhaps}": "best_effort"} {
		if _, err := planText(t, "name: x\nfabric: {kind: pair}\ndefaults: {link: {"+text+"}}\n"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
