package api

import (
	"context"

	"github.com/uetlab/uetlab/internal/ctl"
)

// Credits is a virtual channel of a direction of a link: what its sender counts, and what its receiver does.
type Credits struct {
	Link string `json:"link"`
	From string `json:"from"`
	To   string `json:"to"`
	ctl.Credits
}

// Credits gives the channels of all links that the topology has credits for, both directions of each. What a node would have told that does not answer is 0.
func (c *Client) Credits(ctx context.Context) ([]Credits, error) {
	return get[[]Credits](ctx, c, "/v1/cbfc", nil)
}
