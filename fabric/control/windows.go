package control

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/nodecore"
)

const (
	// windowsEvery is how often, in wall time, end points are asked for changes of windows that they have not told of by themselves.
	windowsEvery = 100 * time.Millisecond
	// windowsKept bounds the changes that wait here for one client.
	windowsKept = 1 << 20
)

// listeners are the clients that want to know of changes of windows.
type listeners struct {
	turns sync.Mutex // held while end points are told to begin or to end
	mu    sync.Mutex
	list  []*listener
}

// listener is what waits for one client.
type listener struct {
	nodes map[int]bool

	mu    sync.Mutex
	lines []api.WindowLine
	n     int // points in lines
	left  int64
}

// windowsFrom takes what an end point tells.
func (d *Daemon) windowsFrom(n *node, w *ctl.Windows) {
	d.listeners.mu.Lock()
	defer d.listeners.mu.Unlock()
	for _, l := range d.listeners.list {
		if l.nodes[n.id] {
			l.take(d, n, w)
		}
	}
}

func (l *listener) take(d *Daemon, n *node, w *ctl.Windows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range w.List {
		if l.n+len(c.Points) > windowsKept {
			l.left += int64(len(c.Points))
			continue
		}
		l.n += len(c.Points)
		line := api.WindowLine{Node: n.name, Peer: d.nameOf(c.Peer), TC: int(c.TC)}
		for _, p := range c.Points {
			line.Points = append(line.Points, nodecore.Point(p))
		}
		l.lines = append(l.lines, line)
	}
}

// send writes what waits.
func (l *listener) send(put func(any) error) error {
	l.mu.Lock()
	lines := l.lines
	l.lines, l.n = nil, 0
	l.mu.Unlock()
	for i := range lines {
		if err := put(lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// tellWindows has end points tell of changes of windows, all that they have not told yet, and go on or end. It gives the names of those
// that do not answer.
func (d *Daemon) tellWindows(ctx context.Context, nodes []*node, on bool) (silent []string) {
	ctx, cancel := context.WithTimeout(ctx, pdcWait)
	defer cancel()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = d.ask(ctx, n, ctl.Message{Op: "windows", Up: on}) }) // ends with the node's answer or ctx
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			silent = append(silent, nodes[i].name)
		}
	}
	return silent
}

// listen adds a listener.
func (d *Daemon) listen(ctx context.Context, nodes []*node) (*listener, error) {
	l := &listener{nodes: map[int]bool{}}
	for _, n := range nodes {
		l.nodes[n.id] = true
	}
	s := &d.listeners
	s.turns.Lock()
	defer s.turns.Unlock()
	d.tellWindows(ctx, s.unheard(nodes), false) // some may tell still what a daemon before this one wanted to know
	s.mu.Lock()
	s.list = append(s.list, l)
	s.mu.Unlock()
	if silent := d.tellWindows(ctx, nodes, true); len(silent) > 0 {
		d.forgetListener(l, nodes)
		return nil, api.Errorf(api.CodeTimeout, "cc: %s does not answer", silent[0])
	}
	return l, nil
}

// forgetListener takes a listener away; end points that nobody else listens to fall silent. turns is held.
func (d *Daemon) forgetListener(l *listener, nodes []*node) {
	s := &d.listeners
	s.mu.Lock()
	s.list = slices.DeleteFunc(s.list, func(x *listener) bool { return x == l })
	s.mu.Unlock()
	d.tellWindows(context.Background(), s.unheard(nodes), false)
}

// unheard are those of nodes to which nobody listens.
func (s *listeners) unheard(nodes []*node) (list []*node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nodes {
		if !n.isDead() && !slices.ContainsFunc(s.list, func(l *listener) bool { return l.nodes[n.id] }) {
			list = append(list, n)
		}
	}
	return list
}

// handleWindows streams changes of windows until a run ends or the client goes.
func (d *Daemon) handleWindows(w http.ResponseWriter, r *http.Request) {
	nodes, err := d.endPoints(r.URL.Query().Get("node"), "congestion windows")
	if err != nil {
		api.WriteError(w, err)
		return
	}
	ends := d.nextRunEnd()
	l, err := d.listen(r.Context(), nodes)
	if err != nil {
		api.WriteError(w, err)
		return
	}
	defer func() {
		d.listeners.turns.Lock()
		defer d.listeners.turns.Unlock()
		d.forgetListener(l, nodes)
	}()
	put := lines(w)
	if put(api.WindowLine{Ready: true}) != nil {
		return
	}
	for ended := false; !ended; {
		select {
		case <-ends:
			ended = true
		case <-time.After(windowsEvery):
		case <-r.Context().Done():
			return
		case <-d.down:
			return
		}
		silent := d.tellWindows(r.Context(), nodes, true)
		if l.send(put) != nil {
			return
		}
		if ended {
			l.mu.Lock()
			left := l.left
			l.mu.Unlock()
			_ = put(api.WindowLine{End: true, LeftOut: left, Silent: silent}) // the client may be gone
		}
	}
}
