package api

import (
	"context"

	"github.com/uetlab/uetlab/internal/ctl"
)

// Credits is a virtual channel of a direction of a link: what its sender counts, and what its receiver does.
type Credits struct {
	Link string `json:"link"`
	From End    `json:"from"`
	To   End    `json:"to"`
	ctl.Credits
}

// Credits gives the channels of the links named, by name or pattern, or of all, that the topology has credits for, both directions of each. What a
// node would have told that does not answer is 0.
func (c *Client) Credits(ctx context.Context, links ...string) ([]Credits, error) {
	return get[[]Credits](ctx, c, "/v1/cbfc", ofLinks(links))
}
