package client

import (
	"context"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/internal/shm"
)

// One of the goroutines that wait is the leader: it looks at the rings, first busily and then asleep on the socket, and wakes the
// others. So a process with one goroutine goes through no other goroutine for a completion.

const (
	spinFirst = 20 * time.Microsecond // how long the leader looks at the rings before it sleeps …
	spinMost  = 50 * time.Microsecond
	spinLeast = time.Microsecond // … at least, once that has been of no use
	// spinCPUs are the processors below which it does not: whoever yields on a busy machine waits for a whole slice of the others, and
	// whoever is woken does not.
	spinCPUs = 4
)

// waiter is a goroutine that waits.
type waiter struct {
	ready  func() bool // asked with mu held
	counts bool        // the FEP may go on while it waits
	woken  bool        // it will run
	ch     chan struct{}
}

func (w *waiter) wake() {
	w.woken = true
	w.poke()
}

func (w *waiter) poke() {
	select {
	case w.ch <- struct{}{}:
	default:
	}
}

// await waits until ready says so, ctx ends or the domain does. The caller holds mu, and holds it again afterwards. counts says that it
// waits for something that happens in virtual time.
func (d *Domain) await(ctx context.Context, ready func() bool, counts bool) error {
	d.drain()
	if ready() {
		return nil
	}
	w := &waiter{ready: ready, counts: counts, ch: make(chan struct{}, 1)}
	d.waiters = append(d.waiters, w)
	defer d.leave(w)
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			w.wake()
			d.wakeLeader()
		})
		defer stop()
	}
	for {
		d.publish()
		switch {
		case ready():
			return nil
		case d.err != nil:
			return d.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case d.leading:
			d.mu.Unlock()
			<-w.ch
			d.mu.Lock()
		default:
			d.lead(counts)
		}
	}
}

// leave takes a waiter off the list, and sees to it that one of the others leads.
func (d *Domain) leave(w *waiter) {
	for i, x := range d.waiters {
		if x == w {
			d.waiters = append(d.waiters[:i], d.waiters[i+1:]...)
			break
		}
	}
	d.handOver()
}

func (d *Domain) handOver() {
	if !d.leading && len(d.waiters) > 0 {
		d.waiters[0].poke()
	}
}

// lead is one round of the leader: until something has happened. The caller holds mu.
func (d *Domain) lead(busily bool) {
	d.leading = true
	hold, cqs, sq, spin, near := d.seen, d.cqs, d.sq, d.spin, d.near && d.sq.Flags.Load()&shm.PageReal != 0 && time.Now().After(d.sharedTil)
	if !busily {
		spin, near = 0, false // it waits for a message on the socket
	}
	d.mu.Unlock()
	news := func() bool { return sq != nil && (sq.Hold.Load() != hold || fresh(cqs)) }
	found, robbed := false, false
	if near {
		found, robbed = watchNear(news)
	} else {
		found = watch(spin, news)
	}
	slept := false
	if !found {
		slept = d.sleep(sq, news)
	}
	d.mu.Lock()
	d.leading = false
	switch {
	case robbed:
		d.sharedTil = time.Now().Add(sharedFor)
	case !busily || spin == 0 || near:
	case found:
		d.spin = min(spinMost, d.spin*2)
	case slept:
		d.spin = max(spinLeast, d.spin/2)
	}
	if slept {
		d.receive()
	}
	d.drain()
}

// fresh says whether a ring holds completions that nobody has taken.
func fresh(cqs []*CQ) bool {
	for _, q := range cqs {
		if q.ring.Tail.Load() != q.seen.Load() {
			return true
		}
	}
	return false
}

// watch looks for news for a while, and lets others have the processor in between.
func watch(spin time.Duration, news func() bool) bool {
	if spin == 0 {
		return false
	}
	for end := time.Now().Add(spin); ; {
		for range 8 {
			if news() {
				return true
			}
		}
		yield()
		if time.Now().After(end) {
			return news()
		}
	}
}

func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// sleep sleeps until a message comes, or wakeLeader is called; false if there was news first.
func (d *Domain) sleep(sq *shm.SQ, news func() bool) bool {
	if sq != nil {
		sq.Sleeps.Store(1)
		if news() {
			sq.Sleeps.Store(0)
			return false
		}
	}
	fds := []unix.PollFd{{Fd: int32(d.sock), Events: unix.POLLIN}, {Fd: int32(d.kick), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, -1) // interrupted: looks again
	if sq != nil {
		sq.Sleeps.Store(0)
	}
	if fds[1].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(d.kick, b[:])
	}
	return true
}

// wakeLeader has the leader look again.
func (d *Domain) wakeLeader() {
	one := [8]byte{1}
	_, _ = unix.Write(d.kick, one[:]) // full: it is awake
}

// receive takes all messages that have come. Callers hold mu.
func (d *Domain) receive() {
	var b [shm.MaxMessage]byte
	for d.err == nil {
		n, fds, err := shm.Recv(d.sock, b[:])
		if err == shm.ErrAgain {
			return
		}
		if err == io.EOF || err != nil {
			d.fail(ErrDetached)
			return
		}
		h, _, err := shm.ParseHeader(b[:n])
		if err == nil && h.Kind == shm.ReqDoorbell {
			shm.CloseAll(fds)
			return // there is one for a sleep; what else has come is seen by the next
		}
		if err != nil || h.ID != d.reqID || d.replied {
			shm.CloseAll(fds)
			continue
		}
		d.reply, d.fds, d.replied = append(d.reply[:0], b[:n]...), fds, true
	}
}

// publish tells the FEP that all threads wait, if they do. Callers hold mu.
func (d *Domain) publish() {
	if d.sq == nil || d.err != nil {
		return
	}
	hold := d.sq.Hold.Load() // before the rings: what was handed over before it is in them
	d.drain()
	d.seen = hold
	if hold == d.waited || d.sq.Flags.Load()&(shm.PageFree|shm.PageReal) != 0 {
		return
	}
	blocked := 0
	for _, w := range d.waiters {
		if w.counts && !w.woken {
			blocked++
		}
	}
	if blocked < d.threads {
		return
	}
	d.waited = hold
	d.sq.Wait.Store(hold)
	d.ring()
}

// ring wakes the FEP if it sleeps.
func (d *Domain) ring() {
	if d.sq.FEPSleeps.Load() != 0 && d.sq.FEPSleeps.CompareAndSwap(1, 0) {
		one := [8]byte{1}
		_, _ = unix.Write(d.bell, one[:]) // full: it is awake
	}
}

// drain takes all completions from the rings to where they belong, and wakes those who wait for them. Callers hold mu.
func (d *Domain) drain() {
	any := false
	for _, q := range d.cqs {
		any = q.drain() || any
	}
	if !any && !d.replied {
		return
	}
	for _, w := range d.waiters {
		if !w.woken && w.ready() {
			w.wake()
		}
	}
}

// Go runs f in a goroutine of its own that acts by itself: the FEP waits until it waits, too.
func (d *Domain) Go(f func()) {
	d.thread(1)
	go func() { // ends with f
		defer d.thread(-1)
		f()
	}()
}

// Outside runs f while the calling goroutine counts as one that waits: f may wait for other goroutines of this process, but
// not use the domain.
func (d *Domain) Outside(f func()) {
	d.thread(-1)
	defer d.thread(1)
	f()
}

func (d *Domain) thread(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.threads += n
	d.publish()
}
