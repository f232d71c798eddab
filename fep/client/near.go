package client

import (
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	spinNear  = 200 * time.Microsecond // how long the leader looks on its FEP's processor before it sleeps
	robbedFor = 300 * time.Microsecond // a yield that takes so long was somebody else's gain: the FEP takes less
	sharedFor = 5 * time.Millisecond   // for so long after one the leader sleeps at once: who is woken gets the processor sooner
)

// watchNear looks for news on the processor of the FEP, which can have none before it has had its turn. robbed says that others keep the processor.
func watchNear(news func() bool) (found, robbed bool) {
	begin := time.Now()
	for last := begin; ; {
		if news() {
			return true, false
		}
		yield()
		now := time.Now()
		if now.Sub(last) > robbedFor {
			return news(), true
		}
		if last = now; now.Sub(begin) > spinNear {
			return news(), false
		}
	}
}

// bound is where the domains of this process have it: all on one processor.
var bound struct {
	mu  sync.Mutex
	n   int // domains
	cpu int
	had unix.CPUSet // what the process had before the first
}

// moveTo binds this process to one processor, and says whether it could. It cannot be on two.
func moveTo(cpu int) bool {
	bound.mu.Lock()
	defer bound.mu.Unlock()
	if bound.n > 0 && bound.cpu != cpu {
		return false
	}
	if bound.n == 0 {
		var one unix.CPUSet
		if unix.SchedGetaffinity(0, &bound.had) != nil || !bound.had.IsSet(cpu) {
			return false
		}
		if one.Set(cpu); !bind(&one) {
			bind(&bound.had)
			return false
		}
	}
	bound.n++
	bound.cpu = cpu
	return true
}

// moveBack undoes moveTo with the last domain.
func moveBack() {
	bound.mu.Lock()
	defer bound.mu.Unlock()
	if bound.n--; bound.n == 0 {
		bind(&bound.had)
	}
}

// bind binds all threads of this process. New ones inherit from the thread that makes them, which may be one that is not bound yet: so it looks until there
// are no others.
func bind(set *unix.CPUSet) bool {
	done := map[int]bool{}
	for found := true; found; {
		found = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return false
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, set); err != nil && err != unix.ESRCH {
				return false
			}
			done[tid], found = true, true
		}
	}
	return true
}
