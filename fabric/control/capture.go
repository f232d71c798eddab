package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/fabric/capture"
	"github.com/uetlab/uetlab/fabric/capture/filter"
	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/internal/vt"
	"github.com/uetlab/uetlab/wire"
)

// handleCapture streams the frames of links until the client goes or has enough, or a run ends.
func (d *Daemon) handleCapture(w http.ResponseWriter, r *http.Request) {
	req, err := api.ParseCapture(r.URL.Query())
	if err != nil {
		api.WriteError(w, err)
		return
	}
	cfg, err := d.openCapture(r.Context(), req)
	if err != nil {
		api.WriteError(w, err)
		return
	}
	defer closeSources(cfg.Sources)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var runEnds <-chan struct{}
	if req.Run {
		runEnds = d.nextRunEnd()
	}
	go func() { // ends with the capture, the run or the lab
		select {
		case <-ctx.Done():
		case <-runEnds:
		case <-d.downDone:
		}
		cancel()
	}()
	// The first byte tells the client that the sockets are open: what is sent from now on is captured.
	w.Header().Set("Content-Type", "application/octet-stream")
	out := flushWriter{w, http.NewResponseController(w)}
	if req.Format == api.FormatText {
		w.WriteHeader(http.StatusOK)
		_ = out.rc.Flush()
		cfg.Sink = capture.NewPrinter(out, cfg.Directions, wire.Options{}, req.Wall)
	} else if cfg.Sink, err = capture.NewWriter(out, cfg.Directions, req.Filter, req.Wall); err != nil {
		return
	}
	_ = cfg.Sink.Flush()
	report, err := capture.Run(ctx, cfg)
	if pw, ok := cfg.Sink.(*capture.Writer); ok {
		_ = pw.Close(report.Stats) // a client that is gone needs no end
	} else {
		_ = cfg.Sink.Flush()
	}
	if err != nil && !errors.Is(err, capture.ErrClosed) {
		d.log.Warn("capture", "link", req.Link, "err", err)
	}
	for i, s := range report.Stats {
		if s.Dropped > 0 {
			d.event("capture", "", req.Link, fmt.Sprintf("%s: %d of %d frames were dropped by the kernel", cfg.Directions[i].Short(), s.Dropped, s.Received))
		}
	}
}

type flushWriter struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (f flushWriter) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.rc.Flush()
	}
	return n, err
}

// openCapture has the receiving ends open their sockets.
func (d *Daemon) openCapture(ctx context.Context, req api.CaptureRequest) (capture.Config, error) {
	cfg := capture.Config{Wall: req.Wall || d.real(), Count: req.Count, Trailer: req.Trailer && req.Format == api.FormatPcapng}
	links, err := capture.Links(d.plan, req.Link)
	if err != nil {
		return cfg, api.Errorf(api.CodeNotFound, "tcpdump: %w", err)
	}
	if req.Filter != "" {
		if cfg.Filter, err = filter.Compile(req.Filter, filter.Options{Names: d.addrs}); err != nil {
			return cfg, api.Errorf(api.CodeUsage, "filter: %w", err)
		}
	}
	if !cfg.Wall {
		cfg.Horizon = func() vt.Time { lo, _ := d.horizons(); return lo }
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, id := range links {
		l := &d.plan.Links[id]
		if err == nil && req.Side != api.SideA {
			err = d.openDirection(ctx, &cfg, id, l.B)
		}
		if err == nil && req.Side != api.SideB {
			err = d.openDirection(ctx, &cfg, id, l.A)
		}
	}
	if err != nil {
		closeSources(cfg.Sources)
	}
	return cfg, err
}

// openDirection has the receiving end of one direction open its socket: what is sent by the far end of its cable arrives there.
func (d *Daemon) openDirection(ctx context.Context, cfg *capture.Config, link int, to topology.End) error {
	_, files, err := d.nodes[to.Node].call(ctx, d, ctl.Message{Op: "capture", Port: to.Port})
	defer closeAll(files)
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("node %s sent %d sockets", d.nodes[to.Node].name, len(files))
	}
	fd, err := dup(files[0])
	if err != nil {
		return err
	}
	cfg.Sources = append(cfg.Sources, capture.NewSource(fd))
	cfg.Directions = append(cfg.Directions, capture.DirectionOf(d.plan, link, d.plan.Nodes[to.Node].Ports[to.Port].Far()))
	return nil
}

func closeSources(sources []*capture.Source) {
	for _, s := range sources {
		s.Close()
	}
}

func dup(f *os.File) (int, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return fd, unix.SetNonblock(fd, true)
}

// addrs lets filters name nodes.
func (d *Daemon) addrs(name string) []netip.Addr {
	n, err := d.plan.Node(name)
	if err != nil {
		return nil
	}
	return []netip.Addr{n.Addr4, n.Addr6}
}
