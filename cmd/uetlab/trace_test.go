package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture"
	"github.com/uetlab/uetlab/internal/vt"
)

// traceOf writes a capture of packets that stand in words: direction (a or b), due, and a letter that makes the bytes.
func traceOf(t *testing.T, directions string, words ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var dirs []capture.Direction
	for _, d := range directions {
		dirs = append(dirs, capture.Direction{FromNode: string(d), FromPort: "eth1", ToNode: "x", ToPort: "eth1"})
	}
	w, err := capture.NewWriter(f, dirs, "", false)
	if err != nil {
		t.Fatal(err)
	}
	due := vt.Time(0)
	for _, word := range words {
		due = 0
		for _, c := range word[1 : len(word)-1] {
			due = due*10 + vt.Time(c-'0')
		}
		p := capture.Sent(strings.IndexByte(directions, word[0]), due, []byte("an ethernet frame with "+word[len(word)-1:]))
		if err := w.Packet(&p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTraceDiff(t *testing.T) {
	base := []string{"a100x", "b100x", "a200y", "b300y", "a300z"}
	for name, c := range map[string]struct {
		dirs  string
		words []string
		flag  string
		want  string // direction, packet and what of every difference
		equal int
	}{
		"same":       {"ab", base, "", "", 5},
		"ties":       {"ba", []string{"b100x", "a100x", "a200y", "a300z", "b300y"}, "", "", 5},
		"later":      {"ab", []string{"a1100x", "b1100x", "a1200y", "b1300y", "a1300z"}, "", "", 5},
		"absolute":   {"ab", []string{"a101x", "b101x", "a201y", "b301y", "a301z"}, "--absolute", "a 1 time: B is +1 ns|b 1 time: B is +1 ns", 0},
		"time":       {"ab", []string{"a100x", "b100x", "a195y", "b300y", "a300z"}, "", "a 2 time: B is -5 ns", 3},
		"bytes":      {"ab", []string{"a100x", "b100x", "a200y", "b300X", "a300z"}, "", "b 2 bytes, from 23 on, of 24 and 24", 4},
		"fewer":      {"ab", base[:4], "", "a 3 only A has this packet", 4},
		"more":       {"ab", append(base, "b400z"), "", "b 3 only B has this packet", 5},
		"order":      {"ab", []string{"a100x", "b100y", "a150x", "b300y", "a300z"}, "", "b 1 bytes, from 23 on|a 2 time: B is -50 ns", 1},
		"silent":     {"ab", []string{"a100x", "a200y", "a300z"}, "", "b 1 only A has this packet", 3},
		"fewer dirs": {"a", []string{"a100x", "a200y", "a300z"}, "", "", 3},
		"other dirs": {"acb", append([]string{"c50q"}, base...), "", "", 5},
	} {
		t.Run(name, func(t *testing.T) {
			o := runLine(t, context.Background(), "trace diff --format json "+traceOf(t, "ab", base...)+" "+traceOf(t, c.dirs, c.words...)+" "+c.flag)
			var d traceDiff
			if err := json.Unmarshal([]byte(o.out), &d); err != nil {
				t.Fatalf("%v: %+v", err, o)
			}
			var want []string
			if c.want != "" {
				want = strings.Split(c.want, "|")
			}
			if d.Packets != c.equal || len(d.Differences) != len(want) || d.Same != (len(want) == 0) || (o.code == api.CodeOK) != d.Same {
				t.Fatalf("%+v", o)
			}
			for i, w := range want {
				x := d.Differences[i]
				if got := strings.Join([]string{x.Direction[:1], string(rune('0' + x.Packet)), x.What[0]}, " "); !strings.HasPrefix(got, w) {
					t.Errorf("%q, want %q", got, w)
				}
			}
		})
	}
}

func TestTraceDiffForPeople(t *testing.T) {
	a, b := traceOf(t, "ab", "a100x", "b200x"), traceOf(t, "ac", "a100x", "a150y")
	o := runLine(t, context.Background(), "trace diff "+a+" "+b)
	want := "a:eth1 > x:eth1  packet 2\n  B         50ns  "
	if o.code != api.CodeFailure || !strings.HasPrefix(o.out, want) {
		t.Errorf("%+v", o)
	}
	for _, part := range []string{"only B has this packet\n", "1 packets of 1 directions are the same; 1 directions part\n",
		"1 directions are only in A and not compared: b:eth1 > x:eth1\n", "1 directions are only in B and not compared: c:eth1 > x:eth1\n"} {
		if !strings.Contains(o.out, part) {
			t.Errorf("no %q in %s", part, o.out)
		}
	}
}

func TestTraceDiffErrors(t *testing.T) {
	a := traceOf(t, "a", "a100x", "a200x")
	whole, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cut, text := filepath.Join(dir, "cut"), filepath.Join(dir, "text")
	if err := os.WriteFile(cut, whole[:len(whole)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("no capture"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]int{cut: api.CodeFailure, text: api.CodeUsage, dir + "/not": api.CodeFailure} {
		if o := runLine(t, context.Background(), "trace diff "+a+" "+name); o.code != code || o.out != "" || !strings.Contains(o.err, name) {
			t.Errorf("%+v, want code %d", o, code)
		}
	}
}

// TestTraceDiffFindsTheSeed compares traces of simulations: of the same seeds, and of others.
func TestTraceDiffFindsTheSeed(t *testing.T) {
	dir := t.TempDir()
	for _, seed := range []string{"1", "2"} {
		if o := runLine(t, context.Background(), "sim star-4 -- alltoall --size 64KiB --lab-seed "+seed+" --trace "+dir+"/"+seed); o.code != 0 {
			t.Fatalf("%+v", o)
		}
	}
	if o := runLine(t, context.Background(), "trace diff "+dir+"/1 "+dir+"/1"); o.code != 0 || !strings.Contains(o.out, "of 8 directions are the same\n") {
		t.Errorf("%+v", o)
	}
	if o := runLine(t, context.Background(), "trace diff "+dir+"/1 "+dir+"/2"); o.code != api.CodeFailure || !strings.Contains(o.out, "pds.psn: ") {
		t.Errorf("code %d: %.500s", o.code, o.out)
	}
}
