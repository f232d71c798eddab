package embedded_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// snapshot is what of the machine a lab could leave traces in.
type snapshot map[string]bool

// takeSnapshot lists processes, the namespaces that they are in, this process's mounts, and the links of its
// network namespace.
func takeSnapshot(t testing.TB) snapshot {
	t.Helper()
	s := make(snapshot)
	for _, kind := range []string{"net", "mnt", "pid"} {
		paths, err := filepath.Glob("/proc/[0-9]*/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if ns, err := os.Readlink(p); err == nil {
				s["namespace "+ns] = true
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		s["mount "+line] = true
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		s[fmt.Sprintf("link %d %s", l.Index, l.Name)] = true
	}
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if b, _ := os.ReadFile(p); strings.Contains(string(b), "UETLAB_LAB=") {
			s["node process "+filepath.Dir(p)] = true
		}
		s["process "+filepath.Dir(p)] = true
	}
	return s
}

// diff lists what differs between two snapshots.
func (s snapshot) diff(after snapshot) []string {
	var d []string
	for k := range s {
		if !after[k] {
			d = append(d, "- "+k)
		}
	}
	for k := range after {
		if !s[k] {
			d = append(d, "+ "+k)
		}
	}
	sort.Strings(d)
	return d
}

// unchanged fails the test if the machine is not as it was.
func (s snapshot) unchanged(t testing.TB) {
	t.Helper()
	for _, line := range s.diff(takeSnapshot(t)) {
		t.Errorf("the machine is not as it was: %s", line)
	}
}
