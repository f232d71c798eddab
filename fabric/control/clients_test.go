package control

import (
	"context"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestTimeGoesOnForProcesses lets time go at a lab that rests while a page tells of a process with something under way, over idle
// stretches too, and has it rest again afterwards.
func TestTimeGoesOnForProcesses(t *testing.T) {
	l := newLab(t, "pair", "auto")
	c := &l.time
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second) // a guard against hanging
	defer cancel()
	rested := l.segment()
	if rested.Flags&clock.Rest == 0 {
		t.Fatal("the lab does not rest")
	}
	at := vt.Time(5 * time.Second)
	l.pages[1].Work.Store(1)
	l.pages[1].Next.Store(int64(at))
	done := make(chan struct{})
	go func() { // ends when there is no work left
		defer close(done)
		c.mu.Lock()
		defer c.mu.Unlock()
		l.attend(ctx, c)
	}()
	for l.segment().Jump != at-1 {
		if ctx.Err() != nil {
			t.Fatalf("time does not leap to what a process waits for: %+v", l.segment())
		}
		sleep(tick)
	}
	if s := l.segment(); s.Flags&clock.Rest != 0 || s.Limit < at-1 {
		t.Errorf("while a process waits: %+v", s)
	}
	l.pages[1].Work.Store(0)
	<-done
	if s := l.segment(); s.Flags&clock.Rest == 0 || c.open {
		t.Errorf("afterwards: %+v", s)
	}
}

// TestAPokeIsAnsweredBetweenLeaps sends a node's question while a leap is decided: the answer comes after that, and does not wait for whoever
// has the clock, as that may be waiting for the node.
func TestAPokeIsAnsweredBetweenLeaps(t *testing.T) {
	l := newLab(t, "pair", "auto")
	near, far := pairOf(t)
	t.Cleanup(func() { near.Close(); far.Close() })
	n := l.nodes[0]
	n.conn = near
	l.time.mu.Lock()
	defer l.time.mu.Unlock()
	l.leaping.Lock()
	bell := l.clk.Bell[0].Load()
	done := make(chan struct{})
	go func() { defer close(done); l.poked(n) }() // ends when the leap is decided
	var m ctl.Message
	for range 100 { // chances to answer too early: none may be taken, however the goroutines are scheduled
		goruntime.Gosched()
		if _, err := far.Recv(&m, false); err != ctl.ErrAgain {
			t.Fatalf("an answer while a leap may be on its way: %+v, %v", m, err)
		}
	}
	l.leaping.Unlock()
	<-done
	if _, err := far.Recv(&m, false); err != nil || m.Op != "poked" || l.clk.Bell[0].Load() == bell {
		t.Errorf("the answer: %+v, %v, bell %d", m, err, l.clk.Bell[0].Load())
	}
}
