package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uetlab/uetlab/workload"
)

// serve gives a client whose daemon answers with h.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := TCP(strings.TrimPrefix(s.URL, "http://"), "secret")
	t.Cleanup(c.Close)
	return c
}

func TestErrorCrossesTheWire(t *testing.T) {
	for _, want := range []*Error{
		Errorf(CodeNotFound, "node %s: not there", "leaf9").WithHint("valid are %s", "leaf0"),
		Errorf(CodeFailure, "it failed"), Errorf(CodeUsage, "no"), Errorf(CodeExists, "busy"), Errorf(CodePrecondition, "no veth"), Errorf(CodeTimeout, "slow"),
	} {
		var status int
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			WriteError(w, fmt.Errorf("%w", want))
			status = want.Status()
		})
		_, err := c.Nodes(context.Background())
		var got *Error
		if !errors.As(err, &got) || got.Code != want.Code || got.Message != want.Message || got.Hint != want.Hint {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if status < 400 || status > 599 {
			t.Errorf("code %d has status %d", want.Code, status)
		}
	}
}

func TestAnswersThatAreNotOurs(t *testing.T) {
	for _, body := range []string{"<html>", "", "{}", `{"error":{}}`, `{"error":{"code":0,"message":"x"}}`, `{"error":"text"}`} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, body)
		})
		_, err := c.Lab(context.Background())
		var e *Error
		if err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "502") {
			t.Errorf("%q: %v", body, err)
		}
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "not JSON") })
	if _, err := c.Lab(context.Background()); err == nil {
		t.Error("took a lab that is not JSON")
	}
}

func TestAsError(t *testing.T) {
	if AsError(nil) != nil {
		t.Error("made an error of nil")
	}
	if e := AsError(io.EOF); e.Code != CodeFailure || !errors.Is(e, io.EOF) {
		t.Errorf("%+v", e)
	}
	inner := Errorf(CodeNotFound, "open: %w", fs.ErrNotExist).WithHint("make it")
	if !errors.Is(inner, fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
	e := AsError(fmt.Errorf("lab one: %w", inner))
	if e.Code != CodeNotFound || e.Message != "lab one: open: file does not exist" || e.Hint != "make it" || !errors.Is(e, fs.ErrNotExist) {
		t.Errorf("%+v", e)
	}
}

func TestNoDaemon(t *testing.T) {
	c := Unix(filepath.Join(t.TempDir(), "none.sock"))
	if _, err := c.Lab(context.Background()); !errors.Is(err, ErrNoDaemon) || strings.Contains(err.Error(), "http://") {
		t.Errorf("%v", err)
	}
	if _, err := Exec(context.Background(), filepath.Join(t.TempDir(), "none.sock"), ExecRequest{}, stdio(t), nil); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("exec: %v", err)
	}
}

func TestTokenAndBodyArrive(t *testing.T) {
	loss := 0.001
	want := LinkChange{Op: LinkOpSet, From: "leaf0", Set: LinkSet{Loss: &loss}, At: "+50us"}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var got LinkChange
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		if r.Header.Get("Authorization") != "Bearer secret" || r.Method != http.MethodPost || r.URL.Path != "/v1/links/leaf0-spine1#2" {
			t.Errorf("%s %s %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
		}
		_ = json.NewEncoder(w).Encode(LinkChangeResult{Link: "leaf0-spine1#2", AtNs: 7})
	})
	res, err := c.ChangeLink(context.Background(), "leaf0-spine1#2", want)
	if err != nil || res.AtNs != 7 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestRunStream(t *testing.T) {
	var seen []string
	each := func(ev RunEvent) error { seen = append(seen, ev.Type); return nil }
	good := func(w http.ResponseWriter) {
		enc := json.NewEncoder(w)
		_ = enc.Encode(RunEvent{Type: RunProgress, Progress: &RunProgressInfo{DoneBytes: 1}})
		_ = enc.Encode(RunEvent{Type: RunResult, Result: &workload.Result{Workload: "incast"}})
	}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { good(w) })
	if err := c.Run(context.Background(), RunRequest{}, each); err != nil || strings.Join(seen, " ") != "progress result" {
		t.Errorf("%v, %v", seen, err)
	}
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		good(w)
		_ = json.NewEncoder(w).Encode(RunEvent{Type: RunError, Error: Errorf(CodePartial, "node leaf0: died")})
	})
	if err := c.Run(context.Background(), RunRequest{}, each); AsError(err).Code != CodePartial {
		t.Errorf("%v", err)
	}
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"type":"prog`) })
	if err := c.Run(context.Background(), RunRequest{}, each); err == nil {
		t.Error("took a stream that was cut")
	}
	stop := errors.New("stop")
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) { good(w) })
	if err := c.Run(context.Background(), RunRequest{}, func(RunEvent) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// TestFollowEndsWithItsContext: the daemon would go on for ever.
func TestFollowEndsWithItsContext(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(Event{Seq: 1, Wall: time.Unix(0, 0)})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(context.Background())
	err := c.Events(ctx, true, func(Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestCaptureRequestRoundTrip(t *testing.T) {
	for _, c := range []CaptureRequest{
		{Link: "leaf0-spine1", Format: FormatPcapng},
		{Link: "leaf0:eth3", Side: SideA, Filter: "udp port 4793 and host 10.0.0.2", Count: 5, Wall: true, Format: FormatText},
	} {
		q, err := url.ParseQuery(c.Query().Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseCapture(q); err != nil || got != c {
			t.Errorf("%+v, %v; want %+v", got, err, c)
		}
	}
	for _, q := range []string{"", "link=l&side=C", "link=l&count=-1", "link=l&count=x", "link=l&wall=perhaps", "link=l&format=pcap"} {
		v, _ := url.ParseQuery(q)
		if _, err := ParseCapture(v); AsError(err) == nil || AsError(err).Code != CodeUsage || AsError(err).Hint == "" {
			t.Errorf("%q: %v", q, err)
		}
	}
}

func FuzzParseCapture(f *testing.F) {
	f.Add("link=l&side=A&count=5&wall=1&format=text&filter=udp")
	f.Fuzz(func(t *testing.T, s string) {
		q, err := url.ParseQuery(s)
		if err != nil {
			return
		}
		c, err := ParseCapture(q)
		if err != nil {
			return
		}
		if again, err := ParseCapture(c.Query()); err != nil || again != c {
			t.Fatalf("%q: %+v, then %+v, %v", s, c, again, err)
		}
	})
}

func TestParseAt(t *testing.T) {
	for s, want := range map[string]struct {
		ns  int64
		rel bool
	}{"+50us": {50_000, true}, "1.5ms": {1_500_000, false}, "0": {0, false}, "+0": {0, true}} {
		if ns, rel, err := ParseAt(s); err != nil || ns != want.ns || rel != want.rel {
			t.Errorf("%s: %d, %v, %v", s, ns, rel, err)
		}
	}
	for _, s := range []string{"", "+", "soon", "-5us", "++5us", "+-5us", "5"} {
		if _, _, err := ParseAt(s); AsError(err) == nil || AsError(err).Code != CodeUsage {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzParseAt(f *testing.F) {
	f.Add("+50us")
	f.Fuzz(func(t *testing.T, s string) {
		if ns, _, err := ParseAt(s); err == nil && ns < 0 {
			t.Fatalf("%q: %d", s, ns)
		}
	})
}
