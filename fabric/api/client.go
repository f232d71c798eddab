package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/uetlab/uetlab/fabric/topology"
)

// Client talks to one lab daemon. It may be used by several goroutines at once.
type Client struct {
	http  *http.Client
	base  string
	token string
}

// Unix gives a client for the daemon that listens on the unix socket at path.
func Unix(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{http: &http.Client{Transport: &http.Transport{DialContext: dial}}, base: "http://lab"}
}

// TCP gives a client for the daemon that listens on host:port and asks for the bearer token.
func TCP(hostport, token string) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{}}, base: "http://" + hostport, token: token}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Lab describes the lab.
func (c *Client) Lab(ctx context.Context) (Lab, error) { return get[Lab](ctx, c, "/v1/lab", nil) }

// Plan gives the topology, worked out.
func (c *Client) Plan(ctx context.Context) (topology.Plan, error) {
	return get[topology.Plan](ctx, c, "/v1/plan", nil)
}

// Nodes gives all nodes in the order of the plan.
func (c *Client) Nodes(ctx context.Context) ([]NodeStatus, error) {
	return get[[]NodeStatus](ctx, c, "/v1/nodes", nil)
}

// Restart ends a node and starts it again; it returns when the node takes part in virtual time again.
func (c *Client) Restart(ctx context.Context, node string) (NodeStatus, error) {
	var r NodeStatus
	err := c.post(ctx, "/v1/nodes/"+url.PathEscape(node)+"/restart", struct{}{}, &r)
	return r, err
}

// Links gives all links in the order of the plan.
func (c *Client) Links(ctx context.Context) ([]LinkStatus, error) {
	return get[[]LinkStatus](ctx, c, "/v1/links", nil)
}

// ChangeLink changes a link, named leaf0-spine1 or leaf0:eth3.
func (c *Client) ChangeLink(ctx context.Context, link string, ch LinkChange) (LinkChangeResult, error) {
	var r LinkChangeResult
	err := c.post(ctx, "/v1/links/"+url.PathEscape(link), ch, &r)
	return r, err
}

// Script schedules a list of changes, all or none.
func (c *Client) Script(ctx context.Context, s FaultScript) (FaultScriptResult, error) {
	var r FaultScriptResult
	err := c.post(ctx, "/v1/faults", s, &r)
	return r, err
}

// Clock gives the lab's virtual time.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	return get[Clock](ctx, c, "/v1/clock", nil)
}

// SetClock changes how virtual time passes and gives the clock afterwards; a step returns when it is done.
func (c *Client) SetClock(ctx context.Context, op ClockOp) (Clock, error) {
	var r Clock
	err := c.post(ctx, "/v1/clock", op, &r)
	return r, err
}

// Run runs a workload and hands over every event of its stream but the error, which it returns. When ctx ends the daemon
// stops the run.
func (c *Client) Run(ctx context.Context, req RunRequest, each func(RunEvent) error) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	rc, err := c.open(ctx, http.MethodPost, "/v1/run", nil, body)
	if err != nil {
		return err
	}
	defer rc.Close()
	return lines(rc, "run", func(ev RunEvent) error {
		if ev.Type == RunError && ev.Error != nil {
			return ev.Error
		}
		return each(ev)
	})
}

// Stats gives the counters of one node, or of all where node is empty.
func (c *Client) Stats(ctx context.Context, node string) ([]NodeStats, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", node)
	}
	return get[[]NodeStats](ctx, c, "/v1/stats", q)
}

// Events hands over the lab's events from the first one kept; with follow it goes on until ctx ends.
func (c *Client) Events(ctx context.Context, follow bool, each func(Event) error) error {
	rc, err := c.open(ctx, http.MethodGet, "/v1/events", followQuery(follow), nil)
	if err != nil {
		return err
	}
	defer rc.Close()
	return lines(rc, "events", each)
}

// Capture opens the stream of a link's frames; closing it ends the capture.
func (c *Client) Capture(ctx context.Context, req CaptureRequest) (io.ReadCloser, error) {
	return c.open(ctx, http.MethodGet, "/v1/capture", req.Query(), nil)
}

// Logs opens a node's log; with follow it goes on until closed.
func (c *Client) Logs(ctx context.Context, node string, follow bool) (io.ReadCloser, error) {
	q := followQuery(follow)
	q.Set("node", node)
	return c.open(ctx, http.MethodGet, "/v1/logs", q, nil)
}

// Metrics opens the Prometheus page.
func (c *Client) Metrics(ctx context.Context) (io.ReadCloser, error) {
	return c.open(ctx, http.MethodGet, "/metrics", nil, nil)
}

// Down asks the daemon to take the lab down and returns when it says that it has.
func (c *Client) Down(ctx context.Context) error { return c.post(ctx, "/v1/down", struct{}{}, nil) }

func followQuery(follow bool) url.Values {
	q := url.Values{}
	if follow {
		q.Set("follow", "1")
	}
	return q
}

// get asks for one JSON value.
func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var v T
	rc, err := c.open(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return v, err
	}
	defer rc.Close()
	if err := json.NewDecoder(rc).Decode(&v); err != nil {
		return v, fmt.Errorf("answer to %s: %w", path, err)
	}
	return v, nil
}

// post sends one JSON value and reads the answer into out where that is not nil.
func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	rc, err := c.open(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	defer rc.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, rc)
		return err
	}
	if err := json.NewDecoder(rc).Decode(out); err != nil {
		return fmt.Errorf("answer to %s: %w", path, err)
	}
	return nil
}

// open sends a request and gives the body of a good answer; any other answer becomes its *Error.
func (c *Client) open(ctx context.Context, method, path string, q url.Values, body []byte) (io.ReadCloser, error) {
	u := c.base + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, dialError(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, readError(resp)
}

// ErrNoDaemon says that nothing listens where the lab daemon should.
var ErrNoDaemon = errors.New("lab daemon does not answer")

// dialError tells a daemon that is not there from other failures, and drops the URL, which tells a user nothing.
func dialError(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("%w: %w", ErrNoDaemon, err)
	}
	return err
}

// readError reads the *Error of an answer; what is not one of ours is quoted.
func readError(resp *http.Response) error {
	const most = 64 << 10
	b, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("answer %s: %w", resp.Status, err)
	}
	var eb errorBody
	if json.Unmarshal(b, &eb) == nil && eb.Error != nil && eb.Error.Code > 0 {
		return eb.Error
	}
	return fmt.Errorf("answer %s: %q", resp.Status, bytes.TrimSpace(b))
}

// lines decodes a stream of JSON values until its end. A stream cut in the middle of a value is an error.
func lines[T any](r io.Reader, what string, each func(T) error) error {
	dec := json.NewDecoder(r)
	for {
		var v T
		switch err := dec.Decode(&v); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: stream ended: %w", what, err)
		}
		if err := each(v); err != nil {
			return err
		}
	}
}
