package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/link/llr"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// givingUp is a link whose ports give up for good; at 10 Gb/s a transfer of some MB takes longer than anybody waits for an operator.
const givingUp = `
name: giveup
fabric: {kind: star, hosts: 2}
defaults:
  link: {rate: 10Gbps, llr: {reInit: false}}
`

// mute keeps all that comes back from the first end point's far end for long enough: no ACK, no NACK, and nothing of the end points' own.
const mute = `
name: mute
steps:
  - {at: +20us, link: %[1]s, from: leaf0, set: loss=100%%}
  - {at: +200us, link: %[1]s, from: leaf0, set: loss=off}
`

const afterMute = "+5.3ms" // more than 5 ms after the port has given up

// directionOf finds a direction in what uetlab llr prints.
func (l *lab) directionOf(t testing.TB, link, from string) api.LLR {
	t.Helper()
	for _, x := range decode[[]api.LLR](t, l.ok(t, "llr", link, "--format", "json")) {
		if x.From.Node == from {
			return x
		}
	}
	t.Fatalf("uetlab llr %s: no direction from %s", link, from)
	return api.LLR{}
}

// TestLLR17_FlushUntilTheOperatorSaysSo breaks the way of the ACKs in the middle of a run. The sending port gives up and stays so for more than 5 ms, in which
// frames go unprotected, until `uetlab llr reinit`; then they are protected again. All of it equals the simulation to the nanosecond. Without the command
// the port stays as it is after the run, an event says what to do, and the command helps then too.
func TestLLR17_FlushUntilTheOperatorSaysSo(t *testing.T) {
	needRoot(t)
	l := up(t, write(t, givingUp))
	link := l.plan.Links[0].Name
	host := l.plan.Nodes[l.plan.Links[0].A.Node].Name
	if !strings.HasPrefix(host, "host") {
		host = l.plan.Nodes[l.plan.Links[0].B.Node].Name
	}
	id, err := l.plan.Node(host)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(mute, link)
	file := write(t, script)
	spec := workload.Spec{Workload: workload.Permutation, Size: 8 << 20, Iters: 1, Check: true, Seed: 1}
	run := []string{"permutation", "--size", "8MiB", "--check", "--seed", "1"}
	port := func(f *sim.Fabric) ctl.LLRPort { return f.Retries(id.ID)[0] }
	var fabric *sim.Fabric
	play := func(text string) figures {
		storm := storming(t, l, text)
		return simulate(t, &l.plan, spec, func(f *sim.Fabric) { fabric = f; storm(f) })
	}
	want := play(script + fmt.Sprintf("  - {at: %s, link: %s, set: llr=reinit}\n", afterMute, link))
	p := port(fabric)
	if p.TX.State != llr.Advance.String() || p.TX.InNs["FLUSH"] < 5_000_000 || p.TX.InNs["INIT"] == 0 || p.Counters["tx_init_ctl_os"] != 1 || p.TX.Ack.Count < 100 {
		t.Fatalf("simulated: %+v", p)
	}

	l.ok(t, "chaos", file)
	l.ok(t, "llr", "reinit", link, "--at", afterMute)
	same(t, "a run with a new handshake", l.run(t, run...), want)
	got := l.directionOf(t, link, host)
	for _, state := range []string{"INIT", "REPLAY", "FLUSH"} {
		if got.TX.InNs[state] != p.TX.InNs[state] {
			t.Errorf("%d ns in %s, simulated %d", got.TX.InNs[state], state, p.TX.InNs[state])
		}
	}
	if got.TX.State != llr.Advance.String() || got.TX.Next != p.TX.Next || got.TX.Ack.Count != p.TX.Ack.Count || got.TX.Ack.SumNs != p.TX.Ack.SumNs || got.TX.RTTNs != p.TX.RTTNs {
		t.Errorf("%+v, simulated %+v", got.TX, p.TX)
	}

	want = play(script)
	l.ok(t, "chaos", file)
	same(t, "a run without", l.run(t, run...), want)
	l.ok(t, "clock", "pause")
	l.ok(t, "clock", "step", "5ms")
	l.ok(t, "clock", "resume")
	if s := l.directionOf(t, link, host); s.TX.State != llr.Flush.String() || s.TX.InNs["FLUSH"] < 10_000_000 {
		t.Errorf("nobody has said anything, and %s is in %s, %v", host, s.TX.State, s.TX.InNs)
	}
	if events := l.ok(t, "events"); !strings.Contains(events, "uetlab llr reinit "+link+" --from "+host) {
		t.Errorf("events do not say what to do:\n%s", events)
	}
	l.ok(t, "llr", "reinit", link)
	until(t, "the handshake", func() bool { return l.directionOf(t, link, host).TX.State == llr.Advance.String() })
	same(t, "a run after it", l.run(t, run...), simulate(t, &l.plan, spec, nil))
	l.ok(t, "link", "set", link, "llr=off")
	if a := l.do(t, "llr", "reinit", link); a.code != api.CodeUsage || !strings.Contains(a.stderr, "llr=on") {
		t.Errorf("a handshake where LLR is off: %v", a)
	}
}

// TestRestartedNodesShakeHands restarts nodes of a fabric with link layer retry, between runs and after one in the middle of which they were killed: both ends
// of their links are in step again, and runs are as before.
func TestRestartedNodesShakeHands(t *testing.T) {
	needRoot(t)
	l := up(t, write(t, "name: retrying-star\nfabric: {kind: star, hosts: 4}\ndefaults:\n  link: {llr: on, ber: 1e-6}\n"))
	run := []string{"permutation", "--size", "512KiB", "--check", "--seed", "3"}
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Permutation, Size: 512 << 10, Iters: 1, Check: true, Seed: 3}, nil)
	same(t, "a run before", l.run(t, run...), want)
	advance := func(what string) {
		t.Helper()
		until(t, "all ports to advance after "+what, func() bool {
			list := decode[[]api.LLR](t, l.ok(t, "llr", "--format", "json"))
			for _, x := range list {
				// Where a run was aborted a frame of it may have come after its end: NACK_SENT then, until the frame expected comes.
				if x.TX.State != llr.Advance.String() || x.RX.State == llr.RXOff.String() || x.TX.Next != x.RX.Next {
					return false
				}
			}
			return len(list) == 2*len(l.plan.Links)
		})
	}
	for _, node := range []string{"leaf0", "host1"} {
		l.ok(t, "restart", node)
		advance("a restart of " + node)
		same(t, "a run after a restart of "+node, l.run(t, run...), want)
	}
	for _, node := range []string{"host2", "leaf0"} {
		l.clockTo(t, "cap", "5000")
		before, deaths := dataSent(l.counters(t)), strings.Count(l.ok(t, "events"), "died")
		p := l.startRun(t, "permutation", "--size", "8MiB")
		until(t, "packets", func() bool { return p.ended() || dataSent(l.counters(t)) > before+20 })
		for _, n := range decode[[]api.NodeStatus](t, l.ok(t, "ps", "--format", "json")) {
			if n.Name == node {
				if err := syscall.Kill(n.Pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		until(t, "the lab to notice", func() bool { return strings.Count(l.ok(t, "events"), "died") > deaths })
		l.clockTo(t, "auto") // without a switch the run goes on until end points give up
		if a := p.wait(); a.code == 0 {
			t.Errorf("%s was killed, and the run says nothing: %v", node, a)
		}
		l.ok(t, "restart", node)
		advance("a run in which " + node + " was killed")
		same(t, "a run after "+node+" was killed in one", l.run(t, run...), want)
	}
}
