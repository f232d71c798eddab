package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/clock"
	"github.com/uetlab/uetlab/internal/ctl"
)

// node is the daemon's end of a node: its page and its connection.
type node struct {
	id   int
	name string
	page *clock.NodePage

	mu     sync.Mutex
	conn   *ctl.Conn
	netns  *os.File
	nextID uint64
	wait   map[uint64]chan answer
	dead   bool
	joins  uint64 // how often the node was taken back, or could not be …
	joined error  // … and why the last time not

	hello chan struct{} // closed at the first hello
	once  sync.Once
	fate  sync.Mutex // held while its links follow its life and death
}

type answer struct {
	reply ctl.Reply
	files []*os.File
	err   error
}

const helloPatience = 10 * time.Second

var errNodeGone = errors.New("the node has ended")

// call sends a message and waits for its answer. The files that come with it are the caller's.
func (n *node) call(ctx context.Context, d *Daemon, m ctl.Message) (ctl.Reply, []*os.File, error) {
	n.mu.Lock()
	if n.conn == nil {
		n.mu.Unlock()
		return ctl.Reply{}, nil, fmt.Errorf("node %s: %w", n.name, errNodeGone)
	}
	n.nextID++
	m.ID = n.nextID
	ch := make(chan answer, 1)
	n.wait[m.ID] = ch
	err := n.conn.Send(&m)
	n.mu.Unlock()
	if err != nil {
		return ctl.Reply{}, nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	d.clk.Bell[n.id].Add(1)
	select {
	case a := <-ch:
		switch {
		case a.err != nil:
			return a.reply, a.files, fmt.Errorf("node %s: %w", n.name, a.err)
		case a.reply.Error != "":
			return a.reply, a.files, fmt.Errorf("node %s: %s", n.name, a.reply.Error)
		}
		return a.reply, a.files, nil
	case <-ctx.Done():
		n.mu.Lock()
		delete(n.wait, m.ID)
		n.mu.Unlock()
		select {
		case a := <-ch: // it came just now
			closeAll(a.files)
		default:
		}
		return ctl.Reply{}, nil, fmt.Errorf("node %s does not answer: %w", n.name, ctx.Err())
	}
}

// ask calls a node whose answer has no files and no data.
func (d *Daemon) ask(ctx context.Context, n *node, m ctl.Message) error {
	_, files, err := n.call(ctx, d, m)
	closeAll(files)
	return err
}

// each calls all nodes for which msg gives a message, at the same time, and joins their errors.
func (d *Daemon) each(ctx context.Context, msg func(n *node) *ctl.Message) error {
	errs := make([]error, len(d.nodes))
	var wg sync.WaitGroup
	for i, n := range d.nodes {
		m := msg(n)
		if m == nil || n.isDead() {
			continue
		}
		wg.Add(1)
		go func() { // ends with the node's answer or ctx
			defer wg.Done()
			errs[i] = d.ask(ctx, n, *m)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func (n *node) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// wake gets all nodes out of their sleep.
func (d *Daemon) wake() {
	for _, n := range d.nodes {
		n.mu.Lock()
		if n.conn != nil && !n.dead {
			n.conn.Poke()
			d.clk.Bell[n.id].Add(1)
		}
		n.mu.Unlock()
	}
}

// listenNodes accepts nodes until the socket is closed. The socket appears under its name in one step, in place of that of
// a daemon before: nodes take its absence for the end of the lab.
func (d *Daemon) listenNodes() error {
	path := d.dir.NodeSock()
	tmp := path + ".new"
	_ = os.Remove(tmp) // of a daemon that died right here
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: tmp}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("lab socket %s: %w", tmp, err)
	}
	if err := errors.Join(os.Chmod(tmp, 0o600), unix.Listen(fd, 512), os.Rename(tmp, path)); err != nil {
		unix.Close(fd)
		return fmt.Errorf("lab socket: %w", err)
	}
	d.nodeSock = fd
	go d.acceptNodes(fd) // ends when Close shuts the socket
	return nil
}

func (d *Daemon) acceptNodes(fd int) {
	for {
		c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
			continue
		}
		if err != nil {
			return
		}
		go d.serveNode(ctl.NewConn(c)) // ends with the connection
	}
}

// serveNode reads all that one node sends.
func (d *Daemon) serveNode(c *ctl.Conn) {
	var r ctl.Reply
	_ = c.Patience(helloPatience) // whoever says nothing holds a thread
	files, err := c.Recv(&r, true)
	if err == nil {
		err = c.Patience(0)
	}
	if err != nil || r.Hello == nil || r.Hello.Lab != d.opt.Lab || r.Hello.ID < 0 || r.Hello.ID >= len(d.nodes) ||
		r.Hello.Node != d.nodes[r.Hello.ID].name || len(files) != 1 {
		d.log.Warn("a stranger on the lab socket", "err", err)
		closeAll(files)
		c.Close()
		return
	}
	n := d.nodes[r.Hello.ID]
	back, ok := d.admit(n, c, files[0])
	if !ok {
		d.log.Warn("second connection of a node refused", "node", n.name)
		closeAll(files)
		c.Close()
		return
	}
	n.once.Do(func() { close(n.hello) })
	if back {
		go d.rejoin(n) // ends when the node is back, or has failed again
	}
	for {
		var r ctl.Reply
		files, err := c.Recv(&r, true)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				d.log.Warn("lab socket", "node", n.name, "err", err)
			}
			break
		}
		d.dispatch(n, r, files)
	}
	d.dismiss(n)
	c.Close()
}

// admit gives a node its connection, and says whether it was dead before. An old connection that is about to end is
// waited for.
func (d *Daemon) admit(n *node, c *ctl.Conn, netns *os.File) (back, ok bool) {
	for range 500 {
		n.mu.Lock()
		if n.conn == nil {
			if n.netns != nil {
				n.netns.Close()
			}
			n.conn, n.netns = c, netns
			back = n.dead
			n.mu.Unlock()
			return back, true
		}
		n.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
	return false, false
}

// dismiss ends a node's connection. A node that goes while the lab is up is dead.
func (d *Daemon) dismiss(n *node) {
	n.mu.Lock()
	for id, ch := range n.wait {
		ch <- answer{err: errNodeGone}
		delete(n.wait, id)
	}
	n.conn = nil
	died := !n.dead && !d.stopping.Load() && d.state.Load() != api.LabStarting
	if died { // before it can be back
		n.dead = true
		d.clk.SetDead(n.id, true)
	}
	n.mu.Unlock()
	if died {
		d.nodeDied(n)
	}
}

func (d *Daemon) dispatch(n *node, r ctl.Reply, files []*os.File) {
	switch {
	case r.ID != 0:
		n.mu.Lock()
		ch := n.wait[r.ID]
		delete(n.wait, r.ID)
		if ch != nil {
			ch <- answer{reply: r, files: files} // has room for the one answer
		}
		n.mu.Unlock()
		if ch != nil {
			return
		}
	case r.Result != nil:
		d.result(n, *r.Result)
	case r.Window != nil:
		d.windowsFrom(n, r.Window)
	case r.LLDP != nil:
		d.heardAt(n, r.LLDP)
	case r.Poke:
		go d.poked(n) // ends when nobody holds the clock
	}
	closeAll(files)
}
