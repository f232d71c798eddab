package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/sim"
	"github.com/uetlab/uetlab/workload"
)

// setAt schedules in the simulator what `switch set` does in a lab, at all switches.
func setAt(t testing.TB, l *lab, after time.Duration, assignments ...string) func(*sim.Fabric) {
	return func(f *sim.Fabric) {
		for id := range l.plan.Nodes {
			n := &l.plan.Nodes[id]
			if n.Kind != topology.KindSwitch {
				continue
			}
			set, err := l.plan.SetSwitch(id, *n.Switch, assignments)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Change(id, ctl.Change{At: t0.Add(after), Port: -1, Switch: &set}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// switches asks for one switch, or for all.
func (l *lab) switches(t testing.TB, name string) []api.SwitchStatus {
	t.Helper()
	list, err := l.api.Switches(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// resetSwitches gives all switches the topology's settings back.
func (l *lab) resetSwitches(t testing.TB) {
	t.Helper()
	l.ok(t, "switch", "reset", "*")
	for _, s := range l.switches(t, "") {
		if len(s.Changed) > 0 || len(s.Pending) > 0 {
			t.Errorf("%s after a reset: %+v, %+v", s.Name, s.Changed, s.Pending)
		}
	}
}

// TestSwitchSetIsExact changes settings of all switches 30 us into an incast, twice armed before the run and once during
// it, while the clock is paused. All must equal the simulation with the same change at the same time, queue by queue.
func TestSwitchSetIsExact(t *testing.T) {
	l := sharedLab(t)
	l.freeClock(t)
	spec := workload.Spec{Workload: workload.Incast, Size: 1 << 20, Iters: 1, Seed: 1}
	run := []string{"incast", "--size", "1MiB", "--seed", "1"}
	whole := simulate(t, &l.plan, spec, nil)
	t.Cleanup(func() {
		if t.Failed() { // what is armed still is used up
			l.do(t, "run", "sendrecv", "--size", "256KiB")
		}
		l.do(t, "switch", "reset", "*")
	})
	for _, change := range [][]string{
		{"ecn.kmin=2%", "ecn.kmax=10%"},
		{"trim.enabled=false", "ecn.enabled=false"},
		{"buffer=32KiB", "queues.trimmed.limit=16KiB", "queues.data.weight=75", "queues.trimmed.weight=25"},
		{"ecmp.balance=adaptive", "ecmp.hash=crc32"},
	} {
		want := simulate(t, &l.plan, spec, setAt(t, l, 30*time.Microsecond, change...))
		if fmt.Sprint(want) == fmt.Sprint(whole) {
			t.Fatalf("%v changes nothing", change)
		}
		for i := range 3 {
			var p *process
			when := api.WhenNextRun
			if i == 2 {
				when = api.WhenThisRun
				l.clockTo(t, "pause")
				p = l.startRun(t, run...)
				until(t, "the run to begin", func() bool { return p.ended() || l.running(t) })
				l.clockTo(t, "step", "12345ns")
			}
			args := append([]string{"switch", "set", "leaf*", "spine*", "--at", "+30us", "--format", "json"}, change...)
			r := decode[[]api.SwitchChangeResult](t, l.ok(t, args...))
			if len(r) != 6 || r[0].Switch != "spine0" || r[0].When != when || slices.ContainsFunc(r, func(x api.SwitchChangeResult) bool { return x.When != when || x.AtNs != r[0].AtNs || x.RelNs != 30_000 }) {
				t.Fatalf("switch set --at +30us: %+v, want all %s at 30000", r, when)
			}
			if s := l.switches(t, "leaf1")[0]; len(s.Changed) > 0 || len(s.Pending) != 1 || !slices.Equal(s.Pending[0].Assignments, change) {
				t.Errorf("before it takes place: changed %+v, ahead %+v", s.Changed, s.Pending)
			}
			if p == nil {
				p = l.startRun(t, run...)
			} else {
				l.clockTo(t, "resume")
			}
			res := result(t, p)
			same(t, fmt.Sprintf("run %d with %v", i, change), res, want)
			if s := l.switches(t, "leaf1")[0]; len(s.Changed) == 0 || len(s.Pending) > 0 {
				t.Errorf("after it took place: changed %+v, ahead %+v", s.Changed, s.Pending)
			}
			l.resetSwitches(t)
		}
		marked, trimmed := congestion(workload.Result{Queues: want.Queues})
		t.Logf("%v: max %d ns, %d marks, %d trims, %d drops; before: max %d ns, %d trims, %d drops", change, want.FCT.Max, marked, trimmed, want.Drops, whole.FCT.Max, whole.Trims, whole.Drops)
	}
	same(t, "a run after the reset", l.run(t, run...), whole)
}

// TestSwitchShow sets settings at rest, and looks at all that shows them.
func TestSwitchShow(t *testing.T) {
	l := sharedLab(t)
	t.Cleanup(func() { l.do(t, "switch", "reset", "*") })
	set := []string{"ecn.kmin=10%", "queues.data.weight=50", "ecmp.balance=flowlet", "trim.size=128B", "weight.eth3=2", "pfc.enabled=true"}
	r := decode[[]api.SwitchChangeResult](t, l.ok(t, append([]string{"switch", "set", "leaf0", "--format", "json"}, set...)...))
	if len(r) != 1 || r[0].When != api.WhenNow || r[0].AtNs == 0 {
		t.Errorf("switch set: %+v", r)
	}
	id := slices.IndexFunc(l.plan.Nodes, func(n topology.Node) bool { return n.Name == "leaf0" })
	want, err := l.plan.SetSwitch(id, *l.plan.Nodes[id].Switch, set)
	if err != nil {
		t.Fatal(err)
	}
	s := l.switches(t, "leaf0")[0]
	if fmt.Sprint(s.Resolved) != fmt.Sprint(want) || !slices.Equal(s.Settings, l.plan.FormatSwitch(want)) {
		t.Errorf("settings %+v\nwant %+v", s.Resolved, want)
	}
	table := l.ok(t, "switch", "show", "leaf0")
	for _, kv := range l.plan.FormatSwitch(want) {
		if !slices.ContainsFunc(strings.Split(table, "\n"), func(line string) bool {
			rest, ok := strings.CutPrefix(line, kv.Key+" ")
			return ok && strings.HasPrefix(strings.TrimSpace(rest), kv.Value)
		}) {
			t.Errorf("switch show says nothing of %s = %s:\n%s", kv.Key, kv.Value, table)
		}
	}
	changed := l.ok(t, "switch", "show", "leaf0", "--changed")
	for _, a := range set {
		if key, _, _ := strings.Cut(a, "="); !strings.Contains(changed, "\n"+key+" ") {
			t.Errorf("switch show --changed says nothing of %s:\n%s", key, changed)
		}
	}
	inspect := l.ok(t, "inspect", "leaf0")
	for _, words := range []string{"flowlet", "128B", "queues.data.weight=50", "buffer use"} {
		if !strings.Contains(inspect, words) {
			t.Errorf("inspect says nothing of %s:\n%s", words, inspect)
		}
	}
	if ls := l.ok(t, "switch", "ls"); strings.Count(ls, "flowlet") != 1 || strings.Count(ls, "\n") != 7 {
		t.Errorf("switch ls:\n%s", ls)
	}
	if ev := l.ok(t, "events"); !strings.Contains(ev, "set "+strings.Join(set, " ")+" at ") {
		t.Errorf("no event of it:\n%s", ev)
	}
	l.resetSwitches(t)
}

// TestSwitchErrors gives settings that are wrong. Each is one clear error, and nothing changes anywhere.
func TestSwitchErrors(t *testing.T) {
	l := sharedLab(t)
	for words, want := range map[string]struct {
		code int
		text string
	}{
		"leaf* ecn.kmim=10%":                  {api.CodeUsage, `did you mean "ecn.kmin"?`},
		"leaf* ecn.kmin=10% trim.size=soon":   {api.CodeUsage, "trim.size (soon)"},
		"leaf* ecn.kmin=90% ecn.kmax=80%":     {api.CodeUsage, "kmin"},
		"leaf0 latency=1us":                   {api.CodeUsage, "fixed while a lab runs"},
		"leaf0 ecn=10%":                       {api.CodeUsage, "section"},
		"leaf0 ecn.kmin=1% ecn.kmin=2%":       {api.CodeUsage, "given twice"},
		"leaf0 mirror.to=eth9":                {api.CodeUsage, "eth9"},
		"host0 ecn.kmin=10%":                  {api.CodeUsage, "not a switch"},
		"leaf9 ecn.kmin=10%":                  {api.CodeNotFound, "leaf9"},
		"leaf0 core* ecn.kmin=10%":            {api.CodeNotFound, "core*"},
		"leaf[ ecn.kmin=10%":                  {api.CodeUsage, "pattern"},
		"leaf* ecn.kmin=10% --at 1ns":         {api.CodeUsage, "past"},
		"leaf* ecn.kmim=10% ecmp.hush=crc32":  {api.CodeUsage, "ecmp.hush"},
		"leaf* trim.size=90KiB --at +30us":    {api.CodeUsage, "trim.size"},
		"leaf0 spine0 ecn.pmax=300% --at 20h": {api.CodeUsage, "ecn.pmax"},
	} {
		a := l.do(t, append([]string{"switch", "set"}, strings.Fields(words)...)...)
		lines := strings.Split(strings.TrimSpace(a.stderr), "\n")
		if a.code != want.code || !strings.Contains(a.stderr, want.text) || a.stdout != "" || len(lines) > 2 {
			t.Errorf("%v, want code %d and %q", a, want.code, want.text)
		}
	}
	for _, s := range l.switches(t, "") {
		if len(s.Changed) > 0 || len(s.Pending) > 0 {
			t.Errorf("%s has changed: %+v, %+v", s.Name, s.Changed, s.Pending)
		}
	}
}

// TestSettingsOutliveNodeAndDaemon restarts a switch and kills the daemon: settings stay, and runs show it.
func TestSettingsOutliveNodeAndDaemon(t *testing.T) {
	needRoot(t)
	l := up(t, "fat-tree-2x4")
	set := []string{"ecn.kmin=1%", "ecn.kmax=5%", "buffer=48KiB"}
	want := simulate(t, &l.plan, workload.Spec{Workload: workload.Incast, Size: 256 << 10, Iters: 1, Seed: 2}, setAt(t, l, -500*time.Nanosecond, set...))
	run := []string{"incast", "--size", "256KiB", "--seed", "2"}
	l.ok(t, append([]string{"switch", "set", "*"}, set...)...)
	same(t, "a run with other settings", l.run(t, run...), want)
	for _, node := range []string{"leaf0", "spine1"} {
		l.ok(t, "restart", node)
		same(t, "a run after a restart of "+node, l.run(t, run...), want)
	}
	l.ok(t, "switch", "set", "leaf0", "trim.victim=coin", "--at", "+1us") // kept too once the next run has begun
	l.run(t, run...)
	changed := l.ok(t, "switch", "show", "leaf0", "--changed")
	if err := syscall.Kill(l.daemonPid(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "commands to notice", func() bool { return l.do(t, "ps").code != 0 })
	l.adopt(t)
	if now := l.ok(t, "switch", "show", "leaf0", "--changed"); now != changed || !strings.Contains(changed, "ecn.kmin") || !strings.Contains(changed, "coin") {
		t.Errorf("after adoption:\n%s\nbefore:\n%s", now, changed)
	}
	l.ok(t, "switch", "set", "leaf0", "trim.victim=arriving")
	same(t, "a run after adoption", l.run(t, run...), want)
	l.ok(t, "restart", "leaf0")
	same(t, "a run after adoption and a restart", l.run(t, run...), want)
}

// TestSwitchQueues compares what the queues of a lab count with the result of the run before, and with the metrics.
func TestSwitchQueues(t *testing.T) {
	l := up(t, "fat-tree-2x4")
	r := l.run(t, "incast", "--size", "1MiB", "--seed", "1")
	queues := decode[[]api.QueueStats](t, l.ok(t, "switch", "queues", "--format", "json"))
	for _, want := range r.Queues {
		i := slices.IndexFunc(queues, func(q api.QueueStats) bool {
			return q.Node == want.Node && q.Port == want.Port && q.Queue == want.Queue
		})
		if i < 0 {
			t.Errorf("no queue %s:%s %d", want.Node, want.Port, want.Queue)
			continue
		}
		c := queues[i].Counters
		got := want
		got.ECNMarked, got.Trimmed, got.TrimDropped, got.PeakBytes = c["ecn_marked"], c["trimmed"], c["trim_dropped"], c["peak_bytes"]
		got.Dropped = c["dropped_frames"] - c["trimmed"] + c["watchdog_dropped"]
		var seen uint64
		for _, n := range queues[i].Depth {
			seen += n
		}
		if got != want || seen < c["tx_frames"] || c["bytes"] != 0 {
			t.Errorf("%+v, %d frames in the histogram: want %+v", queues[i], seen, want)
		}
	}
	if len(r.Queues) == 0 {
		t.Error("the run has no queue that marked or trimmed: the test is of no use")
	}
	hist := l.ok(t, "switch", "queues", "leaf0", "--port", "eth1", "--hist")
	if !strings.Contains(hist, "leaf0:eth1 data") || !strings.Contains(hist, "####") || strings.Contains(hist, "eth2") {
		t.Errorf("switch queues --hist:\n%s", hist)
	}
	if ev := l.ok(t, "events"); !strings.Contains(ev, "congestion") {
		t.Errorf("no event of congestion:\n%s", ev)
	}
	rc, err := l.api.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(rc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range r.Queues {
		labels := map[string]string{"lab": l.name, "node": want.Node, "port": want.Port, "queue": topology.QueueName(want.Queue)}
		for name, v := range map[string]uint64{"uetlab_queue_ecn_marked_total": want.ECNMarked, "uetlab_queue_trimmed_total": want.Trimmed} {
			found := false
			for _, m := range families[name].GetMetric() {
				found = found || has(m, labels) && m.GetCounter().GetValue() == float64(v)
			}
			if !found {
				t.Errorf("%s %v is not %d in the metrics", name, labels, v)
			}
		}
	}
	for _, m := range families["uetlab_queue_depth_bytes"].GetMetric() {
		if h := m.GetHistogram(); has(m, map[string]string{"node": "leaf0", "port": "eth1", "queue": "data"}) && (h.GetSampleCount() < 1000 || len(h.GetBucket()) < 10) {
			t.Errorf("depth of leaf0:eth1 data: %v", h)
		}
	}
	if len(families["uetlab_switch_buffer_peak_bytes"].GetMetric()) != 6 || len(families["uetlab_queue_depth_bytes"].GetMetric()) != len(queues) {
		t.Errorf("%d switches, %d queues in the metrics", len(families["uetlab_switch_buffer_peak_bytes"].GetMetric()), len(families["uetlab_queue_depth_bytes"].GetMetric()))
	}
}
