package matrix

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// text writes a matrix as a file.
func text(m *Matrix) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# made by a test\nNodes %d\nConnections %d\n", m.Nodes, len(m.Flows))
	if len(m.Triggers) > 0 {
		fmt.Fprintf(&b, "Triggers %d\n", len(m.Triggers))
	}
	if len(m.Failures) > 0 {
		fmt.Fprintf(&b, "Failures %d\n", len(m.Failures))
	}
	for _, f := range m.Flows {
		fmt.Fprintf(&b, "%d->%d id %d", f.Src, f.Dst, f.ID)
		if f.Msg > 0 {
			fmt.Fprintf(&b, " msg %d", f.Msg)
		}
		if f.Trigger > 0 {
			fmt.Fprintf(&b, " trigger %d", f.Trigger)
		} else {
			fmt.Fprintf(&b, " start %d.%03d", f.StartNs/1000, f.StartNs%1000)
		}
		fmt.Fprintf(&b, " size %d", f.Size)
		for _, k := range []struct {
			key string
			n   int
		}{{"send_done_trigger", f.SendDone}, {"recv_done_trigger", f.RecvDone}, {"prio", f.Prio}} {
			if k.n > 0 {
				fmt.Fprintf(&b, " %s %d", k.key, k.n)
			}
		}
		b.WriteByte('\n')
	}
	for _, t := range m.Triggers {
		fmt.Fprintf(&b, "trigger id %d %s", t.ID, t.Kind)
		if t.Count > 0 {
			fmt.Fprintf(&b, " count %d", t.Count)
		}
		b.WriteByte('\n')
	}
	for _, f := range m.Failures {
		fmt.Fprintf(&b, "failure switch_type %s switch_id %d link_id %d\n", f.Tier, f.Switch, f.Link)
	}
	return b.String()
}

func TestFiles(t *testing.T) {
	want := map[string]struct {
		nodes, flows, triggers int
		bytes                  int64
	}{
		"toy32.cm": {64, 32, 0, 64e6}, "incast8_32.cm": {32, 8, 0, 16e6}, "one16_2m.cm": {16, 1, 0, 2e6},
		"perm16_2000000_s1.cm": {16, 16, 0, 32e6}, "ring16x_250k.cm": {16, 480, 464, 120e6}, "a2a16_250k.cm": {16, 240, 0, 60e6},
	}
	for name, w := range want {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		m, warnings, err := Parse(name, b, Options{})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", name, err, warnings)
			continue
		}
		if m.Nodes != w.nodes || len(m.Flows) != w.flows || len(m.Triggers) != w.triggers || m.Bytes() != w.bytes {
			t.Errorf("%s: %d nodes, %d flows, %d triggers, %d bytes, want %+v", name, m.Nodes, len(m.Flows), len(m.Triggers), m.Bytes(), w)
		}
	}
}

func TestAllKeys(t *testing.T) {
	const file = "# a file\n\nNodes 4\r\nConnections 4\nTriggers 3\nFailures 1\n" +
		"0->1 id 7 start 1.5 size 10 send_done_trigger 2 recv_done_trigger 5\n2->3 start 0 size 20 prio 9 send_done_trigger 5 \n" +
		"1->2 id 1 msg trigger 2 size 30 send_done_trigger 6\n1->2 id 1 msg 4 trigger 5 size 40\n" +
		"trigger id 2 oneshot\ntrigger id 5 barrier count 2\ntrigger id 6 multishot\nfailure switch_type AGG switch_id 3 link_id 1\n"
	m, warnings, err := Parse("f.cm", []byte(file), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Matrix{Nodes: 4, Flows: []Flow{
		{ID: 7, Src: 0, Dst: 1, Size: 10, StartNs: 1500, SendDone: 2, RecvDone: 5},
		{ID: 2, Src: 2, Dst: 3, Size: 20, SendDone: 5, Prio: 9},
		{ID: 1, Msg: 1, Src: 1, Dst: 2, Size: 30, Trigger: 2, SendDone: 6},
		{ID: 1, Msg: 4, Src: 1, Dst: 2, Size: 40, Trigger: 5},
	}, Triggers: []Trigger{{2, OneShot, 0}, {5, Barrier, 2}, {6, MultiShot, 0}}, Failures: []Failure{{"AGG", 3, 1}}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "f.cm:13: trigger (6): activated 1 times with 0") {
		t.Errorf("warnings %q", warnings)
	}
	if ps, _, err := Parse("f.cm", []byte(strings.Replace(file, "1.5", "2500000", 1)), Options{StartUnit: Picoseconds}); err != nil || ps.Flows[0].StartNs != 2500 {
		t.Errorf("2500000 ps: %+v, %v", ps, err)
	}
}

// TestRefused gives files with one thing wrong, and what the error says.
func TestRefused(t *testing.T) {
	const head = "Nodes 4\nConnections 1\n"
	for _, c := range []struct{ file, want string }{
		{"", "f.cm: Nodes (): the header is missing"},
		{"Nodes 4\n0->1 start 0 size 1\n", "f.cm: Connections (): the header is missing"},
		{"Nodes 4\nConnections 2\n0->1 start 0 size 1\n", "f.cm:2: Connections (2): there are 1"},
		{"Nodes 4\nNodes 4\n", "f.cm:2: Nodes (4): said twice"},
		{"Nodes four\n", "f.cm:1: Nodes (four): not a whole number"},
		{"Nodes 4 5\n", "f.cm:1: Nodes (4 5): takes one number"},
		{"Nodes 1\nConnections 1\n0->1 start 0 size 1\n", "f.cm:1: Nodes (1): a matrix has 2"},
		{"Nodes 4\nConnections 0\n", "Connections (0): a matrix has 1"},
		{head + "0->1 start 0 size 1\nTriggers 0\n", "f.cm:4: Triggers (0): headers come first"},
		{head + "0->1  start 0 size 1\n", "f.cm:3: line (0->1  start 0 size 1): tokens are separated by exactly one blank"},
		{head + "0->1\tstart 0 size 1\n", `f.cm:3: line (0->1\tstart 0 size 1): tokens`},
		{head + "0 -> 1 start 0 size 1\n", "f.cm:3: line (0 -> 1 start 0 size 1): neither a header"},
		{head + "0->9 start 0 size 1\n", "f.cm:3: host (9): hosts go from 0 to 3"},
		{head + "0->x start 0 size 1\n", "f.cm:3: destination (x): not a whole number"},
		{head + "->1 start 0 size 1\n", "f.cm:3: source (): not a whole number"},
		{head + "1->1 start 0 size 1\n", "f.cm:3: connection (1->1): a host sends nothing to itself"},
		{head + "0->1 start 0 size 0\n", "f.cm:3: size (0): a flow without an end"},
		{head + "0->1 start 0\n", "f.cm:3: connection (0->1): has no size"},
		{head + "0->1 start 0 size 2000000000\n", "f.cm:3: size (2000000000): a connection carries 1 to"},
		{head + "0->1 start 0 size 5000000000\n", "f.cm:3: size (5000000000): not a whole number from 0 to 2147483647"},
		{head + "0->1 size 1\n", "f.cm:3: connection (0->1): has exactly one of start and trigger"},
		{head + "0->1 start 0 trigger 1 size 1\n", "f.cm:3: connection (0->1): has exactly one of"},
		{head + "0->1 start NaN size 1\n", "f.cm:3: start (NaN): not a time"},
		{head + "0->1 start -1 size 1\n", "f.cm:3: start (-1): not a time"},
		{head + "0->1 start 1e300 size 1\n", "f.cm:3: start (1e300): beyond the first hour, in us"},
		{head + "0->1 start 0 size\n", "f.cm:3: size (): has no value"},
		{head + "0->1 start 0 siez 1\n", "f.cm:3: key (siez): unknown; valid are start, size"},
		{head + "0->1 start 0 size 1 size 1\n", "f.cm:3: size (0->1): said twice"},
		{head + "0->1 id 0 start 0 size 1\n", "f.cm:3: id (0): not a whole number from 1"},
		{head + "0->1 msg 1 start 0 size 1\n", "f.cm:3: msg (): belongs to a connection"},
		{"Nodes 4\nConnections 2\n0->1 id 1 start 0 size 1\n0->2 id 1 start 0 size 1\n", "f.cm:4: id (1): another connection has it"},
		{"Nodes 4\nConnections 2\n0->1 id 1 msg start 0 size 1\n0->2 id 1 msg start 0 size 1\n", "f.cm:4: id (1): this connection goes from 0 to 1"},
		{"Nodes 4\nConnections 2\n0->1 id 1 msg 3 start 0 size 1\n0->1 id 1 msg 3 start 0 size 1\n", "f.cm:4: msg (3): connection 1 has that message"},
		{head + "0->1 trigger 3 size 1\n", "f.cm:3: trigger (3): never declared; add a line: trigger id 3 oneshot"},
		{"Nodes 4\nConnections 1\nTriggers 1\n0->1 trigger 3 size 1\ntrigger id 3 oneshot\n", "f.cm:4: trigger (3): connection 0->1 never starts"},
		{"Nodes 4\nConnections 1\nTriggers 1\n0->1 trigger 3 size 1 send_done_trigger 3\ntrigger id 3 oneshot\n", "f.cm:4: trigger (3): connection 0->1 never starts"},
		{"Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 3 recv_done_trigger 3\ntrigger id 3 oneshot\n", "f.cm:5: trigger (3): activated 2 times"},
		{"Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 3\ntrigger id 3 barrier count 2\n", "f.cm:5: count (2): trigger 3 is activated 1 times"},
		{head + "trigger id 3 oneshot\n", "f.cm:2: Connections (1): there are 0"},
		{head + "trigger 3 oneshot\n", "f.cm:3: trigger (3 oneshot): not a trigger"},
		{"Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1\ntrigger id 3 twice\n", "f.cm:5: trigger (twice): no such kind"},
		{"Nodes 4\nConnections 1\nTriggers 1\n0->1 start 0 size 1\ntrigger id 3 oneshot count 2\n", "f.cm:5: count (2): only a barrier counts"},
		{"Nodes 4\nConnections 1\nTriggers 2\n0->1 start 0 size 1\ntrigger id 3 oneshot\ntrigger id 3 oneshot\n", "f.cm:6: trigger id (3): declared twice"},
		{head + "failure AGG 1 2\n", "f.cm:3: failure (AGG 1 2): not a failure"},
		{head + "failure switch_type SPINE switch_id 1 link_id 2\n", "f.cm:3: switch_type (SPINE): no tier"},
	} {
		m, _, err := Parse("f.cm", []byte(c.file), Options{})
		if err == nil || m != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.file, err, c.want)
		}
	}
	if _, _, err := Parse("f.cm", nil, Options{StartUnit: "ms"}); err == nil || !strings.Contains(err.Error(), "start unit (ms)") {
		t.Errorf("unit ms: %v", err)
	}
}

func TestManyErrors(t *testing.T) {
	_, _, err := Parse("f.cm", []byte(strings.Repeat("nonsense\n", 1000)), Options{})
	if n := strings.Count(err.Error(), "\n") + 1; n != maxErrors+1 {
		t.Errorf("%d lines of errors", n)
	}
}

func TestWarnings(t *testing.T) {
	const head = "Nodes 4\nConnections 1\n"
	for _, c := range []struct {
		file, want string
		lenient    bool
	}{
		{head + "0->1 start 2000000 size 1\n", "f.cm:3: start (2000000): is beyond a second", false},
		{head + "0->1 start 0 size 1\n# late\n", "f.cm:4: a comment after the first connection", false},
		{head + "0->1  start 0 size 1\n", "f.cm:3: tokens are not one blank apart", true},
		{head + "0->1 start 0 size 1 rate 100\n", "f.cm:3: key (rate): unknown, skipped", true},
	} {
		m, w, err := Parse("f.cm", []byte(c.file), Options{Lenient: c.lenient})
		if err != nil || len(m.Flows) != 1 || len(w) != 1 || !strings.HasPrefix(w[0], c.want) {
			t.Errorf("%q: %v, warnings %q, want %q", c.file, err, w, c.want)
		}
	}
}

// TestTextAndBack writes matrices and reads them, as a file and as a message.
func TestTextAndBack(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		m := Random(rng, 2+rng.IntN(9), 1+rng.IntN(40), 100_000)
		got, _, err := Parse("r.cm", []byte(text(m)), Options{})
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("seed %d: %v\n%s\n got %+v\nwant %+v", seed, err, text(m), got, m)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back := &Matrix{}
		if err := json.Unmarshal(b, back); err != nil || !reflect.DeepEqual(back, m) || back.Validate() != nil {
			t.Fatalf("seed %d: %v, %v: %s", seed, err, back.Validate(), b)
		}
	}
}

func TestMessageOfAThousandFlows(t *testing.T) {
	m := Random(rand.New(rand.NewPCG(1, 1)), 128, 1000, 1<<30)
	b, err := json.Marshal(m)
	if err != nil || len(b) > 200_000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func FuzzParse(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.cm")
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 2000 {
			f.Add(b, false)
		}
	}
	f.Add([]byte(text(Random(rand.New(rand.NewPCG(2, 1)), 8, 20, 1000))), true)
	f.Fuzz(func(t *testing.T, b []byte, lenient bool) {
		m, _, err := Parse("f.cm", b, Options{Lenient: lenient})
		if (m == nil) == (err == nil) {
			t.Fatalf("matrix %v, error %v", m, err)
		}
		if m == nil {
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		again, _, err := Parse("f.cm", []byte(text(m)), Options{})
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%v:\n%s\n got %+v\nwant %+v", err, text(m), again, m)
		}
	})
}
