package control

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/runtime"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/rankproc"
	"github.com/uetlab/uetlab/workload"
)

// crew are the processes of a run's ranks, one each, in the nodes of the ranks. They attach before the run, so that they wait for it at
// t0, and stay until it is over: others may still write into their memory.
type crew struct {
	d     *Daemon
	job   ctl.Job
	nodes []int
	free  bool
	end   context.CancelFunc // kills what is left
	procs []*member
	news  chan struct{} // somebody is ready, or has ended

	patience time.Duration // of blame
}

// member is the process of a rank.
type member struct {
	rank  int
	node  *node
	stdin *os.File // its end tells the process to go

	mu    sync.Mutex
	ready bool
	ended bool
	code  int
	err   error
	tail  []string // the last lines of its standard error
	done  chan struct{}
}

const (
	crewWait    = 60 * time.Second // for all processes to attach
	crewLeave   = 5 * time.Second  // for them to go by themselves
	crashWait   = 2 * time.Second  // for the end of a process to be known when others fail: it takes a while on a busy machine
	tailLines   = 4
	firstJob    = 2 // JobIDs of runs with processes go up from here; 1 is that of ranks within FEPs, and open to all
	binaryInNet = "/uetlab"
)

// gather starts the processes of a run and waits until all are attached.
func (d *Daemon) gather(ctx context.Context, r *run, free bool) (*crew, error) {
	if err := d.mayJoin("run --processes"); err != nil {
		return nil, err
	}
	c := &crew{d: d, nodes: r.nodes, free: free, news: make(chan struct{}, 1), patience: crashWait}
	c.job.ID = firstJob + uint32(d.crews.Add(1)-1)%(1<<24-firstJob)
	if _, err := rand.Read(c.job.Token[:]); err != nil {
		return nil, err
	}
	if err := c.tellJob(ctx, false); err != nil {
		return nil, err
	}
	pctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.end = cancel
	err := c.start(pctx, r.spec)
	if err == nil {
		err = c.attached(ctx)
	}
	if err != nil {
		c.leave()
		return nil, err
	}
	return c, nil
}

// mayJoin refuses what would wait in silence.
func (d *Daemon) mayJoin(what string) error {
	d.time.mu.Lock()
	defer d.time.mu.Unlock()
	if d.time.paused {
		return api.Errorf(api.CodePrecondition, "%s: virtual time is paused, and processes join in virtual time", what).WithHint("uetlab clock resume lets it go on")
	}
	return nil
}

// tellJob opens the job to the processes at the nodes of the ranks, or closes it.
func (c *crew) tellJob(ctx context.Context, end bool) error {
	ctx, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	job := c.job
	job.End = end
	on := map[int]bool{}
	for _, id := range c.nodes {
		on[id] = true
	}
	return c.d.each(ctx, func(n *node) *ctl.Message {
		if !on[n.id] {
			return nil
		}
		return &ctl.Message{Op: "job", Job: &job}
	})
}

// start starts a process for each rank.
func (c *crew) start(ctx context.Context, spec workload.Spec) error {
	task := rankproc.Task{Spec: spec, Peers: spec.Peers(c.d.plan), Job: c.job.ID, Token: c.job.Token[:], Free: c.free}
	for rank, id := range spec.Nodes {
		task.Rank = rank
		b, err := json.Marshal(&task)
		if err != nil {
			return err
		}
		if err := c.spawn(ctx, rank, c.d.nodes[id], b); err != nil {
			return fmt.Errorf("run --processes: rank %d: %w", rank, err)
		}
	}
	return nil
}

// pipes are the ends of a process' standard streams: its own, and ours.
type pipes struct{ theirs, ours [3]*os.File }

func newPipes() (p pipes, err error) {
	for i := range p.theirs {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return p, err
		}
		p.theirs[i], p.ours[i] = w, r
		if i == 0 {
			p.theirs[i], p.ours[i] = r, w
		}
	}
	return p, nil
}

func (p *pipes) close() {
	for i := range p.theirs {
		for _, f := range []*os.File{p.theirs[i], p.ours[i]} {
			if f != nil {
				f.Close()
			}
		}
	}
}

func (c *crew) spawn(ctx context.Context, rank int, n *node, task []byte) error {
	h, ok := c.d.handle(n.id)
	if !ok {
		return fmt.Errorf("node %s does not run", n.name)
	}
	p, err := newPipes()
	if err != nil {
		return err
	}
	m := &member{rank: rank, node: n, stdin: p.ours[0], done: make(chan struct{})}
	c.procs = append(c.procs, m)
	go func() { _, _ = m.stdin.Write(append(task, '\n')) }() // ends when it is read, or the process is gone
	var read sync.WaitGroup
	read.Go(func() { c.listen(m, p.ours[1]) })
	read.Go(func() { m.keep(p.ours[2]) })
	go func() { // ends with the process
		e := runtime.Exec{Handle: h, Argv: []string{binaryInNet, "rank", "--task", "-"}, Env: []string{"GOMAXPROCS=2"}, Files: p.theirs}
		code, err := c.d.rt.Exec(ctx, e)
		for _, f := range p.theirs {
			f.Close()
		}
		read.Wait()
		m.mu.Lock()
		m.ended, m.code, m.err = true, code, err
		m.mu.Unlock()
		close(m.done)
		c.tell()
	}()
	return nil
}

// jobID is what the ranks' processes attach as, 0 where there are none.
func (c *crew) jobID() uint32 {
	if c == nil {
		return 0
	}
	return c.job.ID
}

func (c *crew) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// listen reads what a process says of itself: one line, when it is attached.
func (c *crew) listen(m *member, r *os.File) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if lines.Text() == rankproc.Ready {
			m.mu.Lock()
			m.ready = true
			m.mu.Unlock()
			c.tell()
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line that is too long is none of ours
}

// keep keeps the last lines of what a process complains of.
func (m *member) keep(r *os.File) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m.mu.Lock()
		if m.tail = append(m.tail, lines.Text()); len(m.tail) > tailLines {
			m.tail = m.tail[1:]
		}
		m.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r)
}

// attached waits until all processes wait for the run.
func (c *crew) attached(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, crewWait)
	defer cancel()
	for {
		waiting := 0
		for _, m := range c.procs {
			m.mu.Lock()
			if !m.ready {
				waiting++
			}
			m.mu.Unlock()
		}
		if err := c.crashed(); err != nil {
			return err
		}
		if waiting == 0 {
			return nil
		}
		select {
		case <-c.news:
		case <-c.d.down:
			return errGoing
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return api.Errorf(api.CodeTimeout, "run --processes: %d of %d processes are not attached to their FEPs after %v", waiting, len(c.procs), crewWait)
			}
			return api.Errorf(api.CodeInterrupted, "run: %w", context.Cause(ctx))
		}
	}
}

// crashed tells of the first rank whose process has ended, which none does before it is told to.
func (c *crew) crashed() error {
	for _, m := range c.procs {
		m.mu.Lock()
		ended, code, err, tail := m.ended, m.code, m.err, strings.Join(m.tail, "; ")
		m.mu.Unlock()
		if !ended {
			continue
		}
		how := fmt.Sprintf("ended with exit code %d", code)
		switch {
		case err != nil:
			how = fmt.Sprintf("could not be run: %v", err)
		case code > 128:
			how = fmt.Sprintf("was killed by signal %d", code-128)
		}
		if tail != "" {
			how += ": " + tail
		}
		return api.Errorf(api.CodeCheck, "run: rank %d: its process on %s %s", m.rank, m.node.name, how)
	}
	return nil
}

// blame prefers the end of a process to what other ranks say of it: they fail because it is gone.
func (c *crew) blame(err error) error {
	if c == nil || err == nil {
		return err
	}
	for end := time.Now().Add(c.patience); time.Now().Before(end); sleep(tick) {
		if crash := c.crashed(); crash != nil {
			return crash
		}
	}
	return err
}

// leave ends all processes: they go when their input ends, or are killed.
func (c *crew) leave() {
	if c == nil {
		return
	}
	for _, m := range c.procs {
		m.stdin.Close()
	}
	patience := time.After(crewLeave)
	for _, m := range c.procs {
		select {
		case <-m.done:
		case <-patience:
			c.end()
			<-m.done
			patience = time.After(0)
		}
	}
	c.end()
	if err := c.tellJob(context.Background(), true); err != nil {
		c.d.log.Warn("end a job", "err", err)
	}
}
