package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/labdir"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/faults"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/workload"
)

func TestGuard(t *testing.T) {
	const token = "0123456789abcdef"
	h := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "in") }), token)
	for name, c := range map[string]struct {
		host, origin, auth string
		code               int
	}{
		"right":             {"127.0.0.1:8080", "", "Bearer " + token, 200},
		"name of this host": {"localhost:8080", "", "Bearer " + token, 200},
		"IPv6":              {"[::1]:8080", "", "Bearer " + token, 200},
		"no port":           {"192.0.2.1", "", "Bearer " + token, 200},
		"no token":          {"localhost", "", "", 401},
		"empty token":       {"localhost", "", "Bearer ", 401},
		"other token":       {"localhost", "", "Bearer 0123456789abcdeF", 401},
		"longer token":      {"localhost", "", "Bearer " + token + "0", 401},
		"shorter token":     {"localhost", "", "Bearer " + token[1:], 401},
		"other scheme":      {"localhost", "", "Basic " + token, 401},
		"bare token":        {"localhost", "", token, 401},
		"rebound name":      {"evil.example:8080", "", "Bearer " + token, 403},
		"near name":         {"localhost.evil.example", "", "Bearer " + token, 403},
		"no host":           {"", "", "Bearer " + token, 403},
		"web page":          {"localhost", "https://evil.example", "Bearer " + token, 403},
		"web page, null":    {"localhost", "null", "Bearer " + token, 403},
		"own origin":        {"localhost", "http://localhost", "Bearer " + token, 403},
	} {
		r := httptest.NewRequest("GET", "/v1/lab", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code || (w.Body.String() == "in") != (c.code == 200) || (w.Header().Get("WWW-Authenticate") != "") != (c.code == 401) {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
	}
}

func TestEventsSince(t *testing.T) {
	l := newLab(t, "pair", "auto")
	e := &l.events
	if list, more := e.since(0); len(list) != 0 || more == nil {
		t.Fatalf("a fresh log has %d events", len(list))
	}
	const n = keepEvents + 500
	_, more := e.since(0)
	for i := range n {
		l.event("test", "", "", fmt.Sprint(i+1))
		if i == 0 {
			select {
			case <-more:
			default:
				t.Fatal("who waits is not woken")
			}
		}
	}
	for _, c := range []struct{ seq, first, count uint64 }{
		{0, n - keepEvents + 1, keepEvents}, {n - keepEvents, n - keepEvents + 1, keepEvents}, {n - 3, n - 2, 3}, {n, 0, 0}, {n + 10, 0, 0},
	} {
		list, more := e.since(c.seq)
		if uint64(len(list)) != c.count {
			t.Errorf("since %d: %d events, want %d", c.seq, len(list), c.count)
			continue
		}
		for i, ev := range list {
			if want := c.first + uint64(i); ev.Seq != want || ev.Text != fmt.Sprint(want) {
				t.Fatalf("since %d: event %d is %+v", c.seq, i, ev)
			}
		}
		select {
		case <-more:
			t.Errorf("since %d: woken without an event", c.seq)
		default:
		}
	}
	list, _ := e.since(n - 1)
	l.event("test", "", "", "later")
	if len(list) != 1 || list[0].Text != fmt.Sprint(n) {
		t.Error("a list that was given out changes")
	}
}

func TestSpecSelectsRanks(t *testing.T) {
	l := newLab(t, "fat-tree-2x2", "auto")
	host := func(i int) int { return l.id(fmt.Sprint("host", i)) }
	base := api.RunRequest{Workload: workload.Allreduce, Check: true, Seed: 3}
	for name, c := range map[string]struct {
		edit  func(r *api.RunRequest)
		nodes []int
		code  int
	}{
		"all":         {func(r *api.RunRequest) {}, []int{host(0), host(1), host(2), host(3)}, 0},
		"count":       {func(r *api.RunRequest) { r.RankCount = 2 }, []int{host(0), host(1)}, 0},
		"named":       {func(r *api.RunRequest) { r.Ranks = []int{3, 0} }, []int{host(3), host(0)}, 0},
		"two a node":  {func(r *api.RunRequest) { r.Ranks, r.PerNode = []int{3, 0}, 2 }, []int{host(3), host(3), host(0), host(0)}, 0},
		"an odd one":  {func(r *api.RunRequest) { r.RankCount, r.PerNode = 3, 2 }, []int{host(0), host(0), host(1)}, 0},
		"no room":     {func(r *api.RunRequest) { r.RankCount, r.PerNode = 9, 2 }, nil, api.CodeUsage},
		"crowd":       {func(r *api.RunRequest) { r.PerNode = workload.MaxPerNode + 1 }, nil, api.CodeUsage},
		"too many":    {func(r *api.RunRequest) { r.RankCount = 5 }, nil, api.CodeUsage},
		"too few":     {func(r *api.RunRequest) { r.RankCount = 1 }, nil, api.CodeUsage},
		"below 0":     {func(r *api.RunRequest) { r.RankCount = -1 }, nil, api.CodeUsage},
		"no such":     {func(r *api.RunRequest) { r.Ranks = []int{0, 4} }, nil, api.CodeUsage},
		"negative":    {func(r *api.RunRequest) { r.Ranks = []int{-1, 0} }, nil, api.CodeUsage},
		"twice":       {func(r *api.RunRequest) { r.Ranks = []int{1, 1} }, nil, api.CodeUsage},
		"dead":        {func(r *api.RunRequest) { r.Ranks = []int{0, 2} }, nil, api.CodePartial},
		"no workload": {func(r *api.RunRequest) { r.Workload = "juggle" }, nil, api.CodeUsage},
		"root":        {func(r *api.RunRequest) { r.Workload, r.Root = workload.Broadcast, 4 }, nil, api.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			n := l.nodes[host(2)]
			n.dead = name == "dead"
			defer func() { n.dead = false }()
			r := base
			c.edit(&r)
			s, err := l.spec(r, 1000)
			if c.code != 0 {
				if e := api.AsError(err); e == nil || e.Code != c.code {
					t.Errorf("%+v, %v, want code %d", s, err, c.code)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(s.Nodes, c.nodes) || s.Ranks != len(c.nodes) || s.Size != 1000 || s.Iters != 1 || s.Seed != 3 || !s.Check || s.Guard != 0 {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	base.Iterations = 4
	if s, err := l.spec(base, 1000); err != nil || s.Iters != 4 || s.Guard <= 0 {
		t.Errorf("four iterations: %+v, %v", s, err)
	}
}

// TestStateFileRoundTrip saves a lab's state and reads it as the daemon that adopts the lab does.
func TestStateFileRoundTrip(t *testing.T) {
	t.Setenv(labdir.EnvDir, t.TempDir())
	dir, err := labdir.Create("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Remove() })
	l := newLab(t, "fat-tree-2x2", "auto")
	l.dir = dir
	l.handles = []runtime.Handle{{Node: "host0", ID: l.id("host0"), Pid: 4711, Ref: "abc"}}
	loss := 0.25
	for _, f := range []faults.Fault{{At: 5, Op: faults.Fail}, {At: 6, Op: faults.Change, Set: faults.Set{Loss: &loss}}} {
		if f.Link, f.From = 2, l.plan.Links[2].A.Node; f.At == 6 {
			l.faults.Settle(5)
		}
		if _, err := l.faults.Schedule(f); err != nil {
			t.Fatal(err)
		}
	}
	l.noCarrier[1] = true
	load := func() (*lab, error) {
		m := newLab(t, "fat-tree-2x2", "auto")
		m.dir = dir
		return m, m.loadState()
	}
	if _, err := load(); err == nil {
		t.Error("a state file that is not there")
	}
	if err := l.saveState(); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); api.AsError(err) == nil || api.AsError(err).Code != api.CodePrecondition {
		t.Errorf("a lab that never came up: %v", err)
	}
	l.state.Store(api.LabReady)
	if err := l.saveState(); err != nil {
		t.Fatal(err)
	}
	m, err := load()
	if err != nil || !reflect.DeepEqual(m.faults.Save(), l.faults.Save()) || !reflect.DeepEqual(m.noCarrier, l.noCarrier) || !reflect.DeepEqual(m.handles, l.handles) || !m.created.Equal(l.created) {
		t.Errorf("%v:\n%+v %+v %v\n%+v %+v %v", err, m.faults.Save(), m.handles, m.created, l.faults.Save(), l.handles, l.created)
	}
	if st, err := os.Stat(dir.State()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("state file: %v, %v", st.Mode(), err)
	}
	other := newLab(t, "pair", "auto")
	other.dir = dir
	if err := other.loadState(); err == nil {
		t.Error("the state of another topology")
	}
	if err := os.WriteFile(dir.State(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); err == nil {
		t.Error("half a state file")
	}
}

// TestStrangersAreTurnedAway says hello as nodes that are not of the lab; the daemon hangs up.
func TestStrangersAreTurnedAway(t *testing.T) {
	l := newLab(t, "pair", "auto")
	path := filepath.Join(t.TempDir(), "s")
	for name, c := range map[string]struct {
		r     ctl.Reply
		files int
	}{
		"no hello":     {ctl.Reply{ID: 1}, 1},
		"another lab":  {ctl.Reply{Hello: &ctl.Hello{Lab: "other"}}, 1},
		"number":       {ctl.Reply{Hello: &ctl.Hello{Lab: "test", ID: 2}}, 1},
		"below 0":      {ctl.Reply{Hello: &ctl.Hello{Lab: "test", ID: -1}}, 1},
		"no namespace": {ctl.Reply{Hello: &ctl.Hello{Lab: "test"}}, 0},
		"two files":    {ctl.Reply{Hello: &ctl.Hello{Lab: "test"}}, 2},
	} {
		a, b := pairOf(t)
		var files []*os.File
		for range c.files {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			files = append(files, f)
		}
		if err := b.Send(&c.r, files...); err != nil {
			t.Fatal(err)
		}
		l.serveNode(a) // returns, and has closed its end
		var m ctl.Message
		if _, err := b.Recv(&m, false); err == nil {
			t.Errorf("%s: the daemon answers %+v", name, m)
		}
		b.Close()
	}
	for _, n := range l.nodes {
		if n.conn != nil {
			t.Errorf("%s is connected", n.name)
		}
	}
}

// TestResultsOfARun hands the daemon results as nodes do, and asks it for its verdict.
func TestResultsOfARun(t *testing.T) {
	l := newLab(t, "pair", "auto")
	before := l.counters()
	r := newRun(workload.Spec{Nodes: []int{0, 1}})
	l.result(l.nodes[0], workload.RankResult{Rank: 0}) // of no run
	l.cur = r
	l.pages[0].Results.Store(1)
	l.result(l.nodes[0], workload.RankResult{Rank: 0})
	for _, rank := range []int{-1, 2, 0} { // of nobody, and the same again
		l.result(l.nodes[0], workload.RankResult{Rank: rank, Error: "no"})
	}
	if r.finished() || r.failed() != nil || l.reported(r) != 1 {
		t.Errorf("one of two: finished %v, reported %d", r.finished(), l.reported(r))
	}
	l.result(l.nodes[1], workload.RankResult{Rank: 1, Error: "peer gone"})
	if err := r.failed(); !r.finished() || err == nil || !strings.Contains(err.Error(), "rank 1: peer gone") {
		t.Errorf("finished %v, %v", r.finished(), err)
	}
	l.pages[0].Ports[0][link.DropLoss].Store(3)
	l.pages[1].Ports[0][link.RxFrames].Store(20)
	l.pages[1].Late.Store(2)
	l.pages[1].Worst.Store(77)
	for _, c := range []struct {
		fault   clock.Fault
		deaths  int64
		verdict string
	}{{0, 0, "exact"}, {clock.FaultLate, 0, "invalid: " + l.nodes[1].name + ": late frame"}, {99, 0, "invalid: " + l.nodes[1].name + ": fault 99"}, {0, 1, "invalid: a node died"}} {
		l.pages[1].Fault.Store(uint64(c.fault))
		l.deaths.Store(c.deaths)
		tot := l.totals(before)
		if tot.Fidelity.Verdict != c.verdict || tot.Drops != 3 || tot.PacketHops != 20 || tot.Fidelity.Late != 2 || tot.Fidelity.WorstLateNs != 77 {
			t.Errorf("%+v, want %q", tot, c.verdict)
		}
	}
}

// TestDaemonAnswersReads asks every address of the API that only reads.
func TestDaemonAnswersReads(t *testing.T) {
	t.Setenv(labdir.EnvDir, t.TempDir())
	dir, err := labdir.Create("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Remove() })
	l := newLab(t, "fat-tree-2x2", "auto")
	l.dir = dir
	l.event("lab", "", "", "ready")
	h := l.handler()
	start := time.Now()
	for path, want := range map[string]string{
		"/v1/lab": `"name":"test"`, "/v1/plan": `"payloadMtu"`, "/v1/nodes": `"spine1"`, "/v1/links": `"leaf0-spine1"`, "/v1/clock": `"state":"resting"`,
		"/v1/stats?node=leaf0": `"drop_no_route":0`, "/v1/events": `"text":"ready"`, "/v1/logs?node=host0": "", "/metrics": "uetlab_",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
	for path, code := range map[string]int{"/v1/stats?node=nobody": 404, "/v1/logs?node=nobody": 404, "/v2/lab": 404} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != code {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
	for _, body := range []string{"", "{", `{"op":"pause","and":1}`, "[]"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/clock", strings.NewReader(body)))
		if w.Code != 400 {
			t.Errorf("body %q: %d %s", body, w.Code, w.Body)
		}
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}
