package e2e

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/wire"
)

// Requirements of link layer retry (uet-link-switch.md, section 15) on a real lab: frames, LLR words and ordered sets as they passed the veth pair.

// retryPair is a line with LLR, patientPair one whose window and replay timer have room for a burst of 100 packets.
const (
	retryPair   = "name: retrypair\nfabric: {kind: pair}\ndefaults:\n  link: {rate: 400Gbps, delay: 500ns, mtu: 4500, llr: on}\n"
	patientPair = "name: patientpair\nfabric: {kind: pair}\ndefaults:\n  link: {rate: 400Gbps, delay: 500ns, mtu: 4500, llr: {replayTimer: 20us, window: 256, buffer: 1MiB}}\n"
)

const pairLink = "host0-host1"

// oneWay has host0 send 1100 packets to host1 under a script.
func oneWay(t *testing.T, steps string) passage {
	t.Helper()
	l := keptLab(t, "retrypair", retryPair)
	return l.passes(t, pairLink, steps, "1ms", flow(t, 2, 0, 1, 1100*4096)...)
}

func at0(set string) string { return "at: +0, link: host0-host1, from: host0, set: '" + set + "'" }

func TestLLR01_NumbersOnTheWire(t *testing.T) {
	x := oneWay(t, "")
	for _, from := range []string{"host0", "host1"} {
		next := uint32(0)
		for _, f := range x.pick(from, func(*onWire) bool { return true }) {
			switch sets := f.sets(); {
			case f.fcs != 0 || f.lost || f.plain:
				t.Fatalf("%s sent a frame that is not sound: %+v", from, f)
			case len(sets) > 0 && f.llr != 0, len(sets) == 0 && f.llr != wire.LLRWord(wire.LLREligible, 0, next):
				t.Fatalf("%s sent LLR word %#x, %d sets, and number %d is next", from, f.llr, len(sets), next)
			case len(sets) == 0:
				next++
			}
		}
		if from == "host0" && next < 1100 {
			t.Errorf("only %d frames are numbered", next)
		}
		x.want(map[string]uint64{from + " eth1 llr_tx_ok": uint64(next), from + " eth1 llr_tx_replay": 0, from + " eth1 llr_tx_nack_ctl_os": 0})
	}
	x.whole(true)
}

// repaired checks that one loss made one NACK with the last good number, 900, and all from 901 on was sent again.
func repaired(t *testing.T, steps string) passage {
	t.Helper()
	x := oneWay(t, steps)
	nacks, again := x.sets("host1", wire.CtlOSNack), x.pick("host0", replay)
	if len(nacks) != 1 || nacks[0].Seq() != 900 {
		t.Fatalf("NACKs %x", nacks)
	}
	for i, f := range again {
		if f.seq() != 901+uint32(i) {
			t.Fatalf("frame %d that is sent again has number %d", i, f.seq())
		}
	}
	if len(again) == 0 {
		t.Error("no frame is sent again")
	}
	x.want(map[string]uint64{"host1 eth1 llr_tx_nack_ctl_os": 1, "host0 eth1 llr_tx_replay": 1, "host1 eth1 llr_rx_replay": 1, "host0 eth1 llr_replay_timeouts": 0})
	x.whole(true)
	return x
}

func TestLLR05_OneNackOnTheWire(t *testing.T) {
	x := repaired(t, at0("exact=902:drop"))
	x.want(map[string]uint64{"host0 eth1 drop_exact": 1, "host1 eth1 llr_rx_expected_seq_bad": 0})
	for _, f := range x.pick("host0", firstTime) {
		if f.seq() == 901 {
			t.Error("the frame that is dropped has passed")
		}
	}
}

func TestLLR06_BadFCSOnTheWire(t *testing.T) {
	for _, region := range []string{"payload", "header", "fcs"} {
		x := repaired(t, at0("exact=902:corrupt-"+region))
		x.want(map[string]uint64{"host1 eth1 llr_rx_expected_seq_bad": 1, "host1 eth1 drop_fcs": 1})
		bad := x.pick("host0", func(f *onWire) bool { return f.fcs != 0 })
		if len(bad) != 1 || bad[0].seq() != 901 || bad[0].fcs == wire.FCSPoison {
			t.Errorf("%s: %d frames with a bad FCS", region, len(bad))
		}
	}
}

func TestLLR08_ReplayBeginsBehindTheNack(t *testing.T) {
	x := repaired(t, at0("exact=902:drop"))
	if f := x.pick("host0", replay)[0]; f.seq() != x.sets("host1", wire.CtlOSNack)[0].Seq()+1 || uint8(f.llr>>20) != wire.LLRFlagReplay {
		t.Errorf("the first frame that is sent again has LLR word %#x", f.llr)
	}
}

func TestLLR09_OneReplayCountedAtBothEnds(t *testing.T) {
	x := repaired(t, at0("exact=902:corrupt-payload"))
	if n := x.gained["host0 eth1 llr_replayed_frames"]; n != uint64(len(x.pick("host0", replay))) {
		t.Errorf("%d frames counted as sent again, %d were", n, len(x.pick("host0", replay)))
	}
}

func TestLLR10_LostNackOnTheWire(t *testing.T) {
	x := oneWay(t, at0("exact=902:drop")+"\nat: +0, link: host0-host1, from: host1, set: 'setloss=100%,nack'")
	if n := x.sets("host1", wire.CtlOSNack); len(n) != 0 {
		t.Errorf("%d NACKs have passed", len(n))
	}
	x.want(map[string]uint64{"host1 eth1 llr_tx_nack_ctl_os": 1, "host1 eth1 lost_ordered_sets": 1, "host0 eth1 llr_rx_nack_ctl_os": 0, "host0 eth1 llr_replay_timeouts": 1,
		"host0 eth1 llr_tx_replay": 1, "host1 eth1 llr_rx_replay": 1, "host0 eth1 llr_flushes": 0})
	x.whole(true)
}

func TestLLR11_BrokenReplayOnTheWire(t *testing.T) {
	x := oneWay(t, at0("exact=902:corrupt,1r:corrupt"))
	if n := x.sets("host1", wire.CtlOSNack); len(n) != 1 || n[0].Seq() != 900 {
		t.Errorf("NACKs %x", n)
	}
	x.want(map[string]uint64{"host1 eth1 llr_rx_expected_seq_bad": 2, "host0 eth1 llr_replay_timeouts": 1, "host0 eth1 llr_tx_replay": 2, "host0 eth1 llr_flushes": 0})
	x.whole(true)
}

// LLR-12: the Probe by which the end point asks for the last packet is lost too, so that nothing follows it.
func TestLLR12_LostLastFrameOnTheWire(t *testing.T) {
	x := oneWay(t, "")
	last := len(x.pick("host0", firstTime))
	x = oneWay(t, at0(fmt.Sprintf("exact=%d-%d:drop", last, last+1)))
	if again := x.pick("host0", replay); len(again) != 2 || again[0].seq() != uint32(last-1) {
		t.Errorf("%d frames are sent again", len(again))
	}
	x.want(map[string]uint64{"host1 eth1 llr_tx_nack_ctl_os": 0, "host0 eth1 llr_replay_timeouts": 1, "host0 eth1 drop_exact": 2})
	x.whole(true)
}

func TestLLR13_MutedAnswersOnTheWire(t *testing.T) {
	l := keptLab(t, "patientpair", patientPair)
	x := l.passes(t, pairLink, "at: +0, link: host0-host1, from: host1, set: 'setloss=100%,ack,nack'", "1ms", flow(t, 2, 0, 1, 100*4096)...)
	times := map[uint32]int{}
	for _, f := range x.pick("host0", (*onWire).numbered) {
		times[f.seq()]++
	}
	for seq, n := range times {
		if n != 4 {
			t.Errorf("number %d was sent %d times", seq, n)
		}
	}
	if len(times) < 100 {
		t.Errorf("only %d frames are numbered", len(times))
	}
	if len(x.sets("host1", wire.CtlOSAck)) != 0 || x.gained["host1 eth1 lost_ordered_sets"] == 0 {
		t.Errorf("%d ACKs have passed, %d ordered sets are lost", len(x.sets("host1", wire.CtlOSAck)), x.gained["host1 eth1 lost_ordered_sets"])
	}
	if len(x.sets("host0", wire.CtlOSInit)) == 0 || len(x.sets("host1", wire.CtlOSInitEcho)) == 0 {
		t.Error("no handshake follows")
	}
	n := uint64(len(times))
	x.want(map[string]uint64{"host0 eth1 llr_tx_ok": n, "host0 eth1 llr_tx_replay": 3, "host0 eth1 llr_replay_timeouts": 3, "host0 eth1 llr_flushes": 1, "host1 eth1 llr_rx_duplicate_seq": 3 * n})
}

func TestLLR19_NeverGivesUpOnTheWire(t *testing.T) {
	l := keptLab(t, "stubbornpair", strings.Replace(patientPair, "replayTimer: 20us", "replayTimer: 20us, replayCount: 255", 1))
	x := l.passes(t, pairLink, "at: +0, link: host0-host1, from: host1, set: 'setloss=100%,ack,nack'\nat: +1ms, link: host0-host1, set: setloss=off", "2ms", flow(t, 2, 0, 1, 100*4096)...)
	n := x.gained["host0 eth1 llr_tx_replay"]
	if n < 20 || len(x.sets("host1", wire.CtlOSAck)) == 0 {
		t.Errorf("%d replays, %d ACKs have passed at last", n, len(x.sets("host1", wire.CtlOSAck)))
	}
	x.want(map[string]uint64{"host0 eth1 llr_flushes": 0, "host1 eth1 llr_rx_expected_seq_good": x.gained["host0 eth1 llr_tx_ok"]})
	x.whole(true)
}

func TestLLR20_CarrierLossOnTheWire(t *testing.T) {
	x := oneWay(t, "at: +30us, link: host0-host1, set: down\nat: +50us, link: host0-host1, set: down=off")
	x.want(map[string]uint64{"host0 eth1 llr_flushes": 0, "host1 eth1 llr_flushes": 0, "host0 eth1 drop_link_down": 0})
	if x.gained["host1 eth1 drop_link_cut"] == 0 || len(x.pick("host0", replay)) == 0 {
		t.Error("nothing was on the line when it was cut")
	}
	x.whole(true)
	x = oneWay(t, "at: +30us, link: host0-host1, set: down\nat: +230us, link: host0-host1, set: down=off")
	x.want(map[string]uint64{"host0 eth1 llr_flushes": 1})
	if len(x.sets("host0", wire.CtlOSInit)) == 0 {
		t.Error("no handshake follows")
	}
	x.whole(false)
}

func TestLLR22_PoisonOnTheWire(t *testing.T) {
	x := oneWay(t, at0("exact=10:poison"))
	bad := x.pick("host0", func(f *onWire) bool { return f.fcs != 0 })
	if len(bad) != 1 || bad[0].fcs != wire.FCSPoison || bad[0].seq() != 9 {
		t.Errorf("%d frames with a bad FCS", len(bad))
	}
	x.want(map[string]uint64{"host1 eth1 llr_tx_nack_ctl_os": 0, "host1 eth1 llr_rx_poisoned": 1, "host1 eth1 drop_poisoned": 1, "host0 eth1 llr_tx_replay": 0})
	x.whole(false)
}

func TestLLR25_DuplicateOnTheWire(t *testing.T) {
	x := oneWay(t, at0("exact=5:duplicate"))
	if n := x.pick("host0", func(f *onWire) bool { return f.numbered() && f.seq() == 4 }); len(n) != 2 || string(n[0].b) != string(n[1].b) {
		t.Errorf("number 4 has passed %d times", len(n))
	}
	x.want(map[string]uint64{"host1 eth1 llr_rx_duplicate_seq": 1, "host1 eth1 llr_tx_nack_ctl_os": 0, "host0 eth1 tx_duplicates": 1, "host0 eth1 llr_tx_replay": 0})
	x.whole(true)
}

func TestLLR27_NoLLRNoWord(t *testing.T) {
	x := sharedLab(t).passes(t, "leaf0-spine0", "", "", "permutation", "--size", "128KiB")
	for _, f := range x.frames {
		if f.llr != 0 || f.plain || f.fcs != 0 || len(f.sets()) != 0 {
			t.Fatalf("%+v", f)
		}
	}
	if len(x.frames) < 50 {
		t.Errorf("%d frames", len(x.frames))
	}
}

func TestLLR27_NoTrailerTowardsAPlainHost(t *testing.T) {
	needRoot(t)
	needTools(t, "ping")
	l := up(t, "hosts-2x2", "--time", "real")
	p, file := l.capture(t, "host0-leaf0", "--trailers", "-c", "6", "icmp")
	l.ok(t, "exec", "host0", "--", "ping", "-n", "-c", "5", "-i", "0.05", "-w", "20", l.plan.Nodes[nodeID(t, l, "host3")].Addr4.String())
	if a := p.wait(); a.code != 0 {
		t.Fatal(a)
	}
	from := map[string]int{}
	for _, f := range wires(t, file) {
		from[f.from]++
		if ip, err := wire.ParseIPv4(f.b[wire.EthLen:]); err != nil || !f.plain || strings.Contains(string(f.b), "UEL1") || ip.TotalLen() != len(f.b)-wire.EthLen {
			t.Errorf("%v: %+v", err, f)
		}
	}
	if from["leaf0"] == 0 || from["host0"] == 0 {
		t.Errorf("frames %v", from)
	}
	if a := l.do(t, "link", "set", "host0-leaf0", "poison=1%"); a.code != 2 || !strings.Contains(a.stderr, "plain host") {
		t.Errorf("poison towards a plain host: %v", a)
	}
}

func TestLLR28_BrokenWordsOnTheWire(t *testing.T) {
	l := keptLab(t, "retrypair", retryPair)
	x := l.passes(t, pairLink, at0("corrupt=1%,llr"), "1ms", flow(t, 2, 0, 1, 10_000*4096)...)
	all := float64(x.gained["host0 eth1 tx_frames"])
	lost := x.pick("host0", func(f *onWire) bool { return f.lost })
	if n := float64(len(lost)); math.Abs(n-all/100) > 4*math.Sqrt(all/100) || all < 10_000 {
		t.Errorf("%v of %v frames have a damaged LLR word", n, all)
	}
	x.want(map[string]uint64{"host1 eth1 drop_preamble": uint64(len(lost)), "host1 eth1 drop_fcs": 0, "host0 eth1 llr_flushes": 0})
	x.whole(true)
	t.Logf("%d LLR words damaged, %d replays", len(lost), x.gained["host0 eth1 llr_tx_replay"])
}
