package api

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/uetlab/uetlab/workload"
	"github.com/uetlab/uetlab/workload/matrix"
)

// RunRequest asks for a workload on the lab's end points.
type RunRequest struct {
	Workload   string  `json:"workload"`
	Sizes      []int64 `json:"sizes"`               // bytes per sender, one run each
	Ranks      []int   `json:"ranks,omitempty"`     // ids of end points in host order (0 = host0), rank 0 first
	RankCount  int     `json:"rankCount,omitempty"` // so many ranks on the first end points, where Ranks is empty; 0 = PerNode on each
	PerNode    int     `json:"perNode,omitempty"`   // ranks on each end point, 0 = 1
	Iterations int     `json:"iterations"`
	Check      bool    `json:"check"` // compare the data element by element
	Seed       uint64  `json:"seed"`
	Warm       bool    `json:"warm"`                // keep PDCs and state from before
	Processes  bool    `json:"processes,omitempty"` // each rank is a process of its own that uses the FEP of its node
	Free       bool    `json:"free,omitempty"`      // with Processes: FEPs do not wait for them
	// The rest is as in workload.Spec; zero values stand for its defaults.
	Algo    string `json:"algo,omitempty"`
	Op      string `json:"op,omitempty"`
	Type    string `json:"type,omitempty"`
	Root    int    `json:"root,omitempty"`
	Window  int    `json:"window,omitempty"`
	Ordered bool   `json:"ordered,omitempty"`
	// FEP overrides settings of all end points for these runs: keys of a topology file's mapping fep, dotted where nested, and values as
	// they would stand there.
	FEP map[string]string `json:"fep,omitempty"`
	// Matrix is what the workload matrix plays; Sizes is one 0 then.
	Matrix *matrix.Matrix `json:"matrix,omitempty"`
	// EveryNs asks for a series of the run, sampled in steps of so much virtual time; 0: none.
	EveryNs int64 `json:"everyNs,omitempty"`
}

// Types of RunEvent.
const (
	RunProgress = "progress"
	RunResult   = "result"
	RunError    = "error" // the last line
)

// RunProgressInfo says how far a run is.
type RunProgressInfo struct {
	DoneBytes  int64 `json:"doneBytes"`
	TotalBytes int64 `json:"totalBytes"`
	VirtualNs  int64 `json:"virtualNs"` // since the start of the run
	SizeBytes  int64 `json:"sizeBytes"` // of the sweep, the size that runs
	Iteration  int   `json:"iteration"` // from 1
}

// RunEvent is one line of a run's stream.
type RunEvent struct {
	Type     string           `json:"type"`
	Progress *RunProgressInfo `json:"progress,omitempty"`
	Result   *workload.Result `json:"result,omitempty"` // one per size
	Error    *Error           `json:"error,omitempty"`
}

// Sides of a capture.
const (
	SideBoth = ""
	SideA    = "A" // only what end A receives
	SideB    = "B" // only what end B receives
)

// Formats of a capture.
const (
	FormatPcapng = "pcapng"
	FormatText   = "text" // one line a packet
)

// CaptureRequest asks for the frames of links.
type CaptureRequest struct {
	Link   string // a link, several with commas between, or "all"
	Side   string // SideBoth, SideA or SideB
	Filter string // pcap filter expression
	Count  int    // stop after so many packets; 0 = until the client goes
	Run    bool   // stop with the end of the run request that ends next
	Wall   bool   // stamp with wall time in place of due
	Format string // FormatPcapng or FormatText

	Trailer bool // leave the link trailer at the end of frames
}

// Query gives the request as URL query.
func (c CaptureRequest) Query() url.Values {
	q := url.Values{"link": {c.Link}, "format": {c.Format}}
	if c.Side != SideBoth {
		q.Set("side", c.Side)
	}
	if c.Filter != "" {
		q.Set("filter", c.Filter)
	}
	if c.Count > 0 {
		q.Set("count", strconv.Itoa(c.Count))
	}
	if c.Wall {
		q.Set("wall", "1")
	}
	if c.Run {
		q.Set("run", "1")
	}
	if c.Trailer {
		q.Set("trailer", "1")
	}
	return q
}

// ParseCapture reads a CaptureRequest from a URL query. Its error is an *Error with CodeUsage.
func ParseCapture(q url.Values) (CaptureRequest, error) {
	c := CaptureRequest{Link: q.Get("link"), Side: q.Get("side"), Filter: q.Get("filter"), Format: q.Get("format")}
	if c.Link == "" {
		return c, Errorf(CodeUsage, "capture: no link named").WithHint("give one with link=NAME")
	}
	if c.Side != SideBoth && c.Side != SideA && c.Side != SideB {
		return c, badValue("side", c.Side, "A or B")
	}
	if c.Format == "" {
		c.Format = FormatPcapng
	}
	if c.Format != FormatPcapng && c.Format != FormatText {
		return c, badValue("format", c.Format, "pcapng or text")
	}
	var err error
	if c.Wall, err = flag(q, "wall"); err != nil {
		return c, err
	}
	if c.Run, err = flag(q, "run"); err != nil {
		return c, err
	}
	if c.Trailer, err = flag(q, "trailer"); err != nil {
		return c, err
	}
	if s := q.Get("count"); s != "" {
		if c.Count, err = strconv.Atoi(s); err != nil || c.Count < 0 {
			return c, badValue("count", s, "a number of packets")
		}
	}
	return c, nil
}

// flag reads a boolean of a query; absent is false.
func flag(q url.Values, key string) (bool, error) {
	s := q.Get(key)
	if s == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, badValue(key, s, "1 or 0")
	}
	return v, nil
}

func badValue(key, value, want string) *Error {
	return &Error{Code: CodeUsage, Message: fmt.Sprintf("%s (%s): not known", key, value), Hint: "give " + want}
}

// ParseAt reads a virtual time as LinkChange.At gives it: "+50us" after the start of a run (relative), "1.5ms" since the
// lab came up. Its error is an *Error with CodeUsage.
func ParseAt(s string) (ns int64, relative bool, err error) {
	text, relative := strings.CutPrefix(s, "+")
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || strings.HasPrefix(text, "+") {
		return 0, false, (&Error{Code: CodeUsage, Message: fmt.Sprintf("at (%s): not a virtual time", s)}).
			WithHint("give +50us after the start of a run, or 1.5ms since the lab came up")
	}
	return int64(d), relative, nil
}
