package control

import (
	"context"
	"time"

	"github.com/uetlab/uetlab/internal/vt"
)

// A lab at rest: virtual time follows the wall, from one burst of timers to the next.

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
func (d *Daemon) catchUp(ctx context.Context, c *clockwork, now vt.Time) error {
	for tries := 0; !d.hasHosts; tries++ {
		next := d.nextEvent()
		switch {
		case d.inFlight():
			if tries > 20 {
				return d.reach(ctx, c, now)
			}
			sleep(tick / 5)
		case next > now:
			return nil
		default:
			if err := d.reachAsIs(ctx, c, min(now, next.Add(burst))); err != nil {
				return err
			}
			tries = 0
		}
	}
	return d.reach(ctx, c, now)
}

// mostLag is how long, in wall time, catching up may take without a lab at rest falling behind the wall.
const mostLag = vt.Time(time.Second)

// follow has virtual time follow the wall again from where it did before a catch-up that took so long. Where that was too long it goes on from where it is: nodes that
// have more to do than the machine can, as ports that shake hands through a black hole, would never catch up, and every command would wait for them.
func (c *clockwork) follow(wall int64, virt vt.Time, took int64) {
	if took < int64(mostLag) {
		c.restWall, c.restVirt = wall, virt
	}
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
				wall, virt, began := c.restWall, c.restVirt, c.wall.Now()
				if err := d.catchUp(ctx, c, now); err != nil {
					d.log.Warn("let time follow the wall", "err", err)
					break
				}
				d.rest(c)
				c.follow(wall, virt, c.wall.Now()-began)
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
