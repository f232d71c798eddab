package control

import (
	"context"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// A lab at rest: virtual time follows the wall, from one burst of timers to the next. Where there is more to do than the machine can keep pace with
// (ports ask for ever for credits that a black hole has taken), it falls behind: nobody who asks for the lab waits for it.

// catchUpWall is how long catchUp goes on, wall time.
const catchUpWall = 100 * time.Millisecond

// nextEvent is the time of the first event that waits anywhere.
func (d *Daemon) nextEvent() vt.Time {
	next := vt.Never
	for _, n := range d.agreeing() {
		next = min(next, vt.Time(n.page.Next.Load()))
	}
	return next
}

// left says whether anything waits anywhere that may come to something.
func (d *Daemon) left() bool {
	for _, n := range d.agreeing() {
		if vt.Time(n.page.Left.Load()) != vt.Never {
			return true
		}
	}
	return false
}

// catchUp handles what lies before now in a lab that rests. Time goes from one burst of events to the next and not a step further: nodes
// that are let go on without anything to do cost most of what an idle lab costs. Frames that stay on their way, and plain hosts, have it go to now.
// It says whether it got there within its time.
func (d *Daemon) catchUp(ctx context.Context, c *clockwork, now vt.Time, end time.Time) (there bool, err error) {
	for tries := 0; !d.hasHosts; tries++ {
		next := d.nextEvent()
		switch {
		case d.inFlight():
			if tries > 20 {
				return true, d.reach(ctx, c, now)
			}
			sleep(tick / 5)
		case next > now:
			return true, nil
		default:
			if err := d.reachAsIs(ctx, c, min(now, next.Add(burst))); err != nil {
				return false, err
			}
			if time.Now().After(end) {
				return false, nil
			}
			tries = 0
		}
	}
	return true, d.reach(ctx, c, now)
}

// restLoop makes timers fire while the lab rests, when a person would expect it: once the wall has come to the next event
// virtual time is moved there.
func (d *Daemon) restLoop(ctx context.Context) {
	c := &d.time
	for ctx.Err() == nil {
		wait := time.Second
		if d.hasHosts {
			wait = hostWait
		}
		c.mu.Lock()
		if !c.run && !c.paused && !d.real() {
			next, now := d.nextEvent(), d.virtualNow(c)
			switch {
			case d.working():
				d.attend(ctx, c)
				wait = 2 * time.Millisecond
			case next <= now || d.inFlight():
				wall, virt := c.restWall, c.restVirt
				there, err := d.catchUp(ctx, c, now, time.Now().Add(catchUpWall))
				if err != nil {
					d.log.Warn("let time follow the wall", "err", err)
					break
				}
				d.rest(c)
				if there {
					c.restWall, c.restVirt = wall, virt // follow the wall, not the time that this took
				}
				wait = 2 * time.Millisecond
			case next != vt.Never:
				wait = min(wait, next.Sub(now)+time.Millisecond)
			}
		}
		if !c.run && !c.paused {
			d.cutCarriers(ctx)
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-d.kick:
		case <-time.After(wait):
		}
	}
}
