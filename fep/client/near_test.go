package client_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fep/client"
	"github.com/uetlab/uetlab/internal/attach/attachtest"
)

// processors gives those of all threads, and fails if two differ.
func processors(t *testing.T) (set unix.CPUSet) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range threads {
		var s unix.CPUSet
		tid, _ := strconv.Atoi(e.Name())
		if err := unix.SchedGetaffinity(tid, &s); err == unix.ESRCH {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if i > 0 && s != set {
			t.Errorf("thread %d: other processors than the first", tid)
		}
		set = s
	}
	return set
}

// TestNearMovesToTheFEP has two domains of one process join their FEPs' processor and leave it again.
func TestNearMovesToTheFEP(t *testing.T) {
	had := processors(t)
	if had.Count() < 2 {
		t.Skip("needs two processors")
	}
	cpu := 0
	for !had.IsSet(cpu) {
		cpu++
	}
	var one unix.CPUSet
	one.Set(cpu)
	for _, tt := range []struct {
		name string
		cfg  attachtest.Config
		near bool
		want unix.CPUSet
	}{
		{"bound", attachtest.Config{Real: true, Bound: cpu + 1}, true, one},
		{"not asked", attachtest.Config{Real: true, Bound: cpu + 1}, false, had},
		{"FEP not bound", attachtest.Config{Real: true}, true, had},
		{"virtual time", attachtest.Config{Bound: cpu + 1}, true, had},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fabric(t, tt.cfg)
			a, b := pair(t, f, client.DomainOptions{Near: tt.near})
			if got := processors(t); got != tt.want {
				t.Errorf("attached: %d processors", got.Count())
			}
			if a.d.Close(); processors(t) != tt.want {
				t.Error("one closed: the other has moved")
			}
			if b.d.Close(); processors(t) != had {
				t.Error("both closed: not where it was before")
			}
		})
	}
}
