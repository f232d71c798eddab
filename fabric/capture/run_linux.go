package capture

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/capture/filter"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// Sink takes the packets of a capture: a Writer or a Printer.
type Sink interface {
	Packet(p *Packet) error // p and its Data are valid during the call
	Flush() error
}

// Config is what Run needs.
type Config struct {
	Directions []Direction
	Sources    []*Source       // one for each direction, in the same order; Run does not close them
	Filter     *filter.Program // nil: everything
	Horizon    func() vt.Time  // smallest horizon of the fabric: all frames due before it are in the sockets; nil: unknown
	Wall       bool            // order and stamps of the wall clock; else of virtual time
	Reorders   bool            // see SorterConfig
	Trailer    bool            // packets come with their link trailer, which filters do not see
	Count      int             // packets after which to stop; 0: none
	Sink       Sink
}

// Report is the outcome of a capture.
type Report struct {
	Stats   []Stats // of each direction
	Late    uint64  // packets written out of order, see Sorter.Late
	Written int
}

const (
	sweepBatches = 64                     // system calls for one source before the output gets its turn
	lastSweeps   = 32                     // at the end, to empty the sockets of a link that does not fall silent
	patience     = 2 * time.Millisecond   // between looks at the horizon while packets wait for it
	rest         = 250 * time.Millisecond // between looks when none do
)

// run is a capture at work.
type run struct {
	Config
	sorter *Sorter
	report Report
}

// Run captures until ctx is done, Count is reached or something fails, and writes what is held before it returns. The end
// of ctx is no error; ErrClosed says that the reader of the output has gone. The Report is filled in either case. It uses
// the calling goroutine, and one more moment of another when ctx ends.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r := &run{Config: cfg, sorter: NewSorter(SorterConfig{Directions: len(cfg.Directions), Wall: cfg.Wall, Reorders: cfg.Reorders})}
	r.report.Stats = make([]Stats, len(cfg.Directions))
	err := r.loop(ctx)
	r.report.Late = r.sorter.Late()
	for i, s := range cfg.Sources {
		st, serr := s.Stats()
		if err == nil {
			err = serr
		}
		r.report.Stats[i].Received, r.report.Stats[i].Dropped = st.Received, st.Dropped
	}
	return r.report, err
}

func (r *run) loop(ctx context.Context) error {
	if len(r.Sources) != len(r.Directions) {
		return fmt.Errorf("capture: %d sources for %d directions", len(r.Sources), len(r.Directions))
	}
	r.attach()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("capture: eventfd: %w", err)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 1})
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // it must not write to a descriptor that is closed, or somebody else's by then
		}
		unix.Close(wake)
	}()
	for ending := 0; ; {
		if ctx.Err() != nil {
			ending++
		}
		empty, err := r.sweep()
		if err != nil {
			return err
		}
		last := ending > 0 && empty || ending > lastSweeps
		if last {
			r.sorter.Flush()
		}
		done, err := r.write()
		if err != nil || done || last {
			return err
		}
		if !empty {
			continue
		}
		limit := rest
		if r.sorter.Held() > 0 {
			limit = patience
		}
		if err := wait(r.Sources, wake, limit); err != nil {
			return err
		}
	}
}

// attach gives the kernel the filter, which saves copying what Match would drop. It may refuse a long one for want of
// option memory; Match decides in any case.
func (r *run) attach() {
	if r.Filter == nil {
		return
	}
	for i, s := range r.Sources {
		trailer := 0
		if r.Directions[i].Trailer {
			trailer = wire.TrailerLen
		}
		if prog, err := r.Filter.Kernel(trailer); err == nil {
			_ = s.Attach(prog)
		}
	}
}

// sweep moves what is in the sockets to the sorter; empty says that it took all there was.
func (r *run) sweep() (empty bool, err error) {
	horizon := early
	if r.Horizon != nil {
		horizon = r.Horizon() // before the sockets are emptied, so that it speaks of what they hold
	}
	empty = true
	for i, s := range r.Sources {
		drained := false
		for n := 0; n < sweepBatches && !drained; n++ {
			drained, err = s.Read(func(frame []byte, length int, wall int64) { r.take(i, frame, length, wall) })
			if err != nil {
				return false, err
			}
		}
		empty = empty && drained
	}
	if empty {
		r.sorter.Watermark(horizon)
	}
	return empty, nil
}

// take filters one frame into the sorter.
func (r *run) take(iface int, frame []byte, length int, wall int64) {
	p := split(frame, length, r.Directions[iface].Trailer)
	p.Iface, p.Wall = iface, wall
	if r.Filter == nil || r.Filter.Match(p.Data) {
		if r.Trailer && p.Timed {
			p.Data, p.Len = frame, length
		}
		r.sorter.Push(p)
	} else if p.Timed {
		r.sorter.Saw(iface, p.Due)
	}
}

// write hands out what the sorter releases; done says that Count is reached.
func (r *run) write() (done bool, err error) {
	wrote := false
	for !done {
		p, ok := r.sorter.Next()
		if !ok {
			break
		}
		if err := r.Sink.Packet(&p); err != nil {
			return false, err
		}
		r.report.Stats[p.Iface].Delivered++
		r.report.Written++
		wrote = true
		done = r.Count > 0 && r.report.Written == r.Count
	}
	if wrote {
		err = r.Sink.Flush()
	}
	return done, err
}
