package api

import (
	"context"
	"net/http"

	"github.com/uetlab/uetlab/internal/ctl"
	"github.com/uetlab/uetlab/workload"
)

// CC describes one congestion control context of an end point.
type CC struct {
	Node string `json:"node"`
	Peer string `json:"peer"` // a node; where none has the address, the address
	ctl.CC
}

// CCs are the congestion control contexts of end points.
type CCs struct {
	Algorithms map[string]string `json:"algorithms"` // of every end point that was asked and answers; empty: a fixed window, and no contexts
	List       []CC              `json:"list"`
}

// CCs gives the congestion control contexts of one end point, or of all where node is empty.
func (c *Client) CCs(ctx context.Context, node string) (CCs, error) {
	return get[CCs](ctx, c, "/v1/cc", nodeQuery(node))
}

// WindowLine is one line of the stream of changes of congestion windows. The first says Ready, the last End; all others have Points of
// one context, in order; times are virtual, since the lab came up.
type WindowLine struct {
	Ready bool `json:"ready,omitempty"` // every change that takes place from now on is told

	Node   string                  `json:"node,omitempty"`
	Peer   string                  `json:"peer,omitempty"`
	TC     int                     `json:"tc,omitempty"`
	Points []workload.ContextPoint `json:"points,omitempty"`

	End     bool     `json:"end,omitempty"`     // a run has ended
	LeftOut int64    `json:"leftOut,omitempty"` // with End: points that found no room, since the client was too slow
	Silent  []string `json:"silent,omitempty"`  // with End: end points that did not tell all of theirs
}

// Windows hands over changes of congestion windows of an end point, or of all where node is empty, until the run ends that is under
// way, or else the next, or ctx does.
func (c *Client) Windows(ctx context.Context, node string, each func(WindowLine) error) error {
	rc, err := c.open(ctx, http.MethodGet, "/v1/cc/windows", nodeQuery(node), nil)
	if err != nil {
		return err
	}
	defer rc.Close()
	return lines(rc, "cc", each)
}
