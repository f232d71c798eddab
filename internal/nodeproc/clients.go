package nodeproc

import (
	"errors"
	"fmt"
	"time"

	"github.com/uetlab/uetlab/internal/attach"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
)

// clients is what the loop knows of processes that use the node's FEP. A process that the node does not wait for may act at any
// moment. For that it needs an instant that nobody leaps over: the page says that something may happen right after the horizon, the daemon is
// poked, and once it has answered, every leap that was decided before stands in the clock page and none that comes goes further.
type clients struct {
	*attach.Server // nil: the node has no FEP
	waiting        bool
	asked          *ctl.Conn // the daemon that was poked for it
}

// serveProcesses makes a server of a node that has a FEP.
func (p *proc) serveProcesses(l *loop) error {
	if p.core.FEP == nil {
		return nil
	}
	s, err := attach.New(p.core.Node, p.core.FEP, attach.Config{Wall: l.wall.Now, Report: p.core.Report, Yield: p.core.Yield})
	if err != nil {
		return err
	}
	p.core.AfterReset, p.core.Begin, p.core.Taken = s.AfterReset, s.Begin, s.Taken
	l.clients.Server = s
	return nil
}

// openSocket lets processes in.
func (p *proc) openSocket() error {
	if p.loop.clients.Server == nil || p.socket == "" {
		return nil
	}
	if err := p.loop.clients.Listen(p.socket); err != nil {
		return fmt.Errorf("socket for processes: %w", err)
	}
	return nil
}

// job takes a job in, or forgets it.
func (p *proc) job(j *ctl.Job) error {
	if j == nil || p.loop.clients.Server == nil {
		return errors.New("job: not for this node")
	}
	p.loop.clients.AllowJob(j.ID, j.Token, !j.End)
	return nil
}

// serve does what processes want, and says whether the node has to stand still for one.
func (l *loop) serve(horizon vt.Time) (held bool) {
	c := &l.clients
	if c.Server == nil {
		return false
	}
	if l.seg.Flags&clock.Real != 0 {
		c.SetReal(true, l.seg.Virt0, l.seg.Wall0)
	} else {
		c.SetReal(false, 0, 0)
	}
	if c.Pending() {
		l.enter()
	}
	if c.Serve() {
		l.enter()
	}
	if c.Open() {
		c.Grant(c.instant(l, horizon))
	}
	if l.seg.Flags&clock.Real == 0 && c.Wants() { // at the wall's pace nobody leaps
		c.waiting, c.asked = true, nil
	}
	if c.waiting && c.asked != l.conn && l.orphan == 0 {
		l.enter()
		l.show() // before the daemon hears of it
		if err := l.conn.Send(&ctl.Reply{Poke: true}); err == nil {
			c.asked = l.conn
		}
	}
	if len(l.out) > 0 {
		l.enter()
		l.flush()
	}
	return c.Held()
}

// instant is the first moment at which a process may act.
func (c *clients) instant(l *loop, horizon vt.Time) vt.Time {
	if l.seg.Flags&clock.Real != 0 {
		return horizon
	}
	return max(horizon+1, c.Next(horizon))
}

// poked follows the daemon's answer.
func (l *loop) poked() {
	c := &l.clients
	s, ok := l.clk.Read()
	for end := l.wall.Now() + int64(deadAfter); !ok; { // the daemon writes rarely: it cannot go on like this
		if s, ok = l.clk.Read(); !ok && l.wall.Now() > end {
			c.asked = nil // it has died writing: its successor is asked again
			return
		}
	}
	if c.waiting = false; c.Server != nil {
		l.enter()
		c.Grant(max(l.horizon, s.Jump) + 1)
		l.show()
	}
}

// reached is how far a node has come that was to go to bound: if it stands still for a process, to just before that.
func (l *loop) reached(bound vt.Time) vt.Time {
	if l.clients.Server != nil && l.clients.Held() {
		return max(l.horizon, l.node.Now()-1)
	}
	return bound
}

// showClients publishes what processes have under way, and when they may act.
func (l *loop) showClients() vt.Time {
	c := &l.clients
	if c.Server == nil {
		return vt.Never
	}
	l.page.Work.Store(c.Work())
	l.page.Free.Store(c.FreeCalls())
	return c.Next(l.horizon)
}

// thinks is how long a node sleeps at a time while it stands still for a process: that may need the processor that the node is on.
const thinks = 10 * time.Millisecond

// stands says whether the node stands still for a process.
func (c *clients) stands() bool { return c.Server != nil && c.Held() }

// crowded says that the node has processes to serve and that there are not processors for all. Then it sleeps at the wall's pace as soon as there is
// nothing to do: a process that is woken gets the processor sooner than one that the node yields to, and so does the node.
func (l *loop) crowded() bool {
	return l.clients.Server != nil && l.clients.Processes() > 0 && !l.spare && (l.clients.Near() == 0 || l.wall.Now() < l.sharedTil)
}

// near says that a process looks for work on the node's own processor, and that the two give it to each other.
func (l *loop) near() bool { return l.clients.Server != nil && l.clients.Near() > 0 }
