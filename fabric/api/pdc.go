package api

import (
	"context"
	"net/url"

	"github.com/uetlab/uetlab/internal/ctl"
)

// PDC describes one packet delivery context of an end point.
type PDC struct {
	Node string `json:"node"`
	Peer string `json:"peer"` // a node; where none has the address, the address
	ctl.PDC
}

// PDCs gives the PDCs of one end point, or of all where node is empty; with ended also those that have ended of late.
func (c *Client) PDCs(ctx context.Context, node string, ended bool) ([]PDC, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", node)
	}
	if ended {
		q.Set("ended", "1")
	}
	return get[[]PDC](ctx, c, "/v1/pdcs", q)
}
