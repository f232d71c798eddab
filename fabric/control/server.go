package control

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/uetlab/uetlab/fabric/api"
)

// handler is the REST API (fabric/api has the shapes).
func (d *Daemon) handler() http.Handler {
	m := http.NewServeMux()
	get := func(path string, f func(r *http.Request) (any, error)) { m.HandleFunc("GET "+path, answer1(f)) }
	get("/v1/lab", func(*http.Request) (any, error) { return d.lab(), nil })
	get("/v1/plan", func(*http.Request) (any, error) { return d.plan, nil })
	get("/v1/nodes", func(*http.Request) (any, error) { return d.nodeStatus(), nil })
	get("/v1/links", func(*http.Request) (any, error) { return d.linkStatus(), nil })
	get("/v1/clock", func(*http.Request) (any, error) {
		d.time.mu.Lock()
		defer d.time.mu.Unlock()
		return d.showClock(&d.time), nil
	})
	get("/v1/stats", func(r *http.Request) (any, error) { return d.stats(r.Context(), r.URL.Query().Get("node")) })
	get("/v1/pdcs", func(r *http.Request) (any, error) {
		q := r.URL.Query()
		return d.listPDCs(r.Context(), q.Get("node"), q.Get("ended") != "")
	})
	get("/v1/cc", func(r *http.Request) (any, error) { return d.ccs(r.Context(), r.URL.Query().Get("node")) })
	m.HandleFunc("GET /v1/cc/windows", d.handleWindows)
	get("/v1/paths", func(r *http.Request) (any, error) {
		q := r.URL.Query()
		evs, err := strconv.Atoi(q.Get("evs"))
		if err != nil {
			return nil, api.Errorf(api.CodeUsage, "paths: evs (%s): not a number", q.Get("evs"))
		}
		return d.paths(r.Context(), q.Get("node"), q.Get("peer"), evs)
	})
	m.HandleFunc("POST /v1/links/{name}", answer1(func(r *http.Request) (any, error) {
		var ch api.LinkChange
		if err := body(r, &ch); err != nil {
			return nil, err
		}
		return d.changeLink(r.Context(), r.PathValue("name"), ch)
	}))
	d.switchRoutes(m)
	d.lldpRoutes(m)
	d.phyRoutes(m)
	d.llrRoutes(m)
	d.creditRoutes(m)
	m.HandleFunc("POST /v1/faults", answer1(func(r *http.Request) (any, error) {
		var s api.FaultScript
		if err := body(r, &s); err != nil {
			return nil, err
		}
		return d.script(r.Context(), s)
	}))
	m.HandleFunc("POST /v1/clock", answer1(func(r *http.Request) (any, error) {
		var op api.ClockOp
		if err := body(r, &op); err != nil {
			return nil, err
		}
		return d.clockOp(r.Context(), op)
	}))
	m.HandleFunc("POST /v1/nodes/{name}/restart", answer1(func(r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), helloWait)
		defer cancel()
		return d.restart(ctx, r.PathValue("name"))
	}))
	m.HandleFunc("POST /v1/run", d.handleRun)
	m.HandleFunc("POST /v1/measure", d.handleMeasure)
	m.HandleFunc("GET /v1/measure", answer1(func(*http.Request) (any, error) { return d.fidelity() }))
	m.HandleFunc("GET /v1/events", d.handleEvents)
	m.HandleFunc("GET /v1/capture", d.handleCapture)
	m.HandleFunc("GET /v1/logs", d.handleLogs)
	m.HandleFunc("POST /v1/down", func(w http.ResponseWriter, r *http.Request) {
		d.Stop()
		select {
		case <-d.downDone:
		case <-r.Context().Done():
		}
	})
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{d})
	m.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return m
}

func answer1(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			api.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client may be gone
	}
}

// maxBody bounds the body of a request, in bytes: the largest has a matrix of connections in it.
const maxBody = 16 << 20

func body(r *http.Request, v any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return api.Errorf(api.CodeUsage, "request body: %w", err)
	}
	return nil
}

// lines writes one JSON value a line and flushes each.
func lines(w http.ResponseWriter) func(v any) error {
	w.Header().Set("Content-Type", "application/jsonl")
	enc, fl := json.NewEncoder(w), http.NewResponseController(w)
	return func(v any) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		return fl.Flush()
	}
}

var errGoing = errors.New("the lab is being taken down")

func (d *Daemon) handleRun(w http.ResponseWriter, r *http.Request) {
	var req api.RunRequest
	if err := body(r, &req); err != nil {
		api.WriteError(w, err)
		return
	}
	put := lines(w)
	began := false
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go func() { // ends with the run or the lab
		select {
		case <-ctx.Done():
		case <-d.down:
			cancel(errGoing)
		}
	}()
	err := d.runWorkload(ctx, req, func(ev api.RunEvent) error {
		began = true
		return put(ev)
	})
	switch {
	case err == nil:
	case !began:
		api.WriteError(w, err)
	default:
		_ = put(api.RunEvent{Type: api.RunError, Error: api.AsError(err)})
	}
}

func (d *Daemon) handleEvents(w http.ResponseWriter, r *http.Request) {
	put := lines(w)
	var seq uint64
	for {
		list, more := d.events.since(seq)
		for _, e := range list {
			if put(e) != nil {
				return
			}
			seq = e.Seq
		}
		if r.URL.Query().Get("follow") == "" {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-d.downDone:
			return
		}
	}
}

func (d *Daemon) handleLogs(w http.ResponseWriter, r *http.Request) {
	n, err := d.plan.Node(r.URL.Query().Get("node"))
	if err != nil {
		api.WriteError(w, api.Errorf(api.CodeNotFound, "logs: %w", err))
		return
	}
	f, err := os.Open(d.dir.NodeLog(n.Name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		api.WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if f == nil {
		return // the node has said nothing
	}
	defer f.Close()
	fl := http.NewResponseController(w)
	for {
		if _, err := io.Copy(w, f); err != nil {
			return
		}
		if r.URL.Query().Get("follow") == "" {
			return
		}
		_ = fl.Flush()
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
			return
		case <-d.downDone:
			return
		}
	}
}

// serveTCP serves the API on a TCP port to those who know the token in the lab directory's file "token".
func (d *Daemon) serveTCP(addr string) error {
	var b [24]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	token := hex.EncodeToString(b[:])
	if err := os.WriteFile(filepath.Join(d.dir.Path, "token"), []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", addr, err)
	}
	d.serveHTTP(l, guard(d.handler(), token))
	return nil
}

// guard lets only those in who have the token, and keeps web pages of other origins out.
func guard(h http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		ip := net.ParseIP(host)
		if r.Header.Get("Origin") != "" || host != "localhost" && ip == nil {
			http.Error(w, "this API is not for web pages of other origins", http.StatusForbidden)
			return
		}
		got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the bearer token is missing or wrong; it is in the lab directory's file token", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}
