package api

import (
	"context"

	"github.com/uetlab/uetlab/internal/ctl"
)

// LLR is link layer retry of one direction of a link.
type LLR struct {
	Link  string          `json:"link"`
	From  End             `json:"from"`
	To    End             `json:"to"`
	NowNs int64           `json:"nowNs"` // virtual, of the sending node when it was asked
	On    bool            `json:"on"`    // at the sending port; else it was turned off
	TX    ctl.LLRSender   `json:"tx"`
	RX    ctl.LLRReceiver `json:"rx"` // at the far end; all zero where that did not answer
	// Counters are those of llr.Counter of the sending port, without the llr_ of other places; those that are 0 are left out.
	Counters map[string]uint64 `json:"counters"`
}

// LLR gives the directions of the links named, by name or pattern, or of all, that have link layer retry, or had it since the run began; two for each
// link, in the order of the plan. A node that does not answer is left out.
func (c *Client) LLR(ctx context.Context, links ...string) ([]LLR, error) {
	return get[[]LLR](ctx, c, "/v1/llr", ofLinks(links))
}
