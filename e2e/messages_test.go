package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEarlyMessagesAsDrawn plays a message that comes 10 us before its receive, with a process in each node, in all three profiles, and
// holds the diagrams of docs/messages.md to what is captured.
func TestEarlyMessagesAsDrawn(t *testing.T) {
	needRoot(t)
	page, err := os.ReadFile("../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	late := filepath.Join(t.TempDir(), "late")
	build := exec.Command("go", "build", "-o", late, "../examples/late")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name, fep string
		packets   uint64
	}{
		{"hpc-unexpected", "{profile: hpc, eager: 16KiB}", 48},
		{"full-deferred", "{profile: ai-full}", 53},
		{"base", "{profile: ai-base}", 34},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pair.yaml")
			topo := "name: pair\nfabric: {kind: pair}\ndefaults:\n  link: {rate: 400Gbps, delay: 500ns, mtu: 4500}\n  fep: " + c.fep + "\n"
			if err := os.WriteFile(file, []byte(topo), 0o644); err != nil {
				t.Fatal(err)
			}
			l := up(t, file)
			l.ok(t, "clock", "pause")
			capturing, capture := l.capture(t, "host0-host1")
			sender := l.start(t, "exec", "host0", "--no-tty", "--", late, "-peer", "10.0.0.2", "-size", "65536")
			target := l.start(t, "exec", "host1", "--no-tty", "--", late, "-peer", "10.0.0.1", "-size", "65536", "-target", "-after", "10us")
			for _, p := range []*process{sender, target} {
				until(t, "both to attach", func() bool { return p.ended() || strings.Contains(p.err.String(), "attaching") })
			}
			l.ok(t, "clock", "resume") // takes longer than a hello
			for _, p := range []*process{sender, target} {
				if a := p.wait(); a.code != 0 {
					t.Fatal(a)
				}
			}
			l.ok(t, "clock", "pause") // PDCs would close meanwhile
			stop(t, capturing, capture, c.packets)
			a := uetlab(t, "decode", capture, "--sequence")
			if want := drawn(string(page), c.name); want == "" || a.code != 0 || undated(a.stdout) != want {
				t.Errorf("%v\nscripts/sequences.sh draws anew what the page has:\n%s", a, want)
			}
		})
	}
}

// drawn is the diagram of a page behind its mark.
func drawn(page, name string) string {
	_, rest, _ := strings.Cut(page, "<!-- sequence: "+name+" -->\n```\n")
	text, _, _ := strings.Cut(rest, "```\n")
	return text
}

// undated leaves the line out that says when in the life of the lab it was.
func undated(diagram string) string {
	var b strings.Builder
	for line := range strings.Lines(diagram) {
		if !strings.HasPrefix(line, "time 0 is") {
			b.WriteString(line)
		}
	}
	return b.String()
}
