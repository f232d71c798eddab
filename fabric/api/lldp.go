package api

import (
	"context"

	"github.com/uetlab/uetlab/internal/ctl"
)

// LLDP is what a port with LLDP has heard.
type LLDP struct {
	Node    string `json:"node"`
	Mistake string `json:"mistake,omitempty"` // how it is not what the topology says
	ctl.LLDPPort
}

// LLDP gives the ports of one node, or of all where node is empty, that have LLDP. A node that does not answer is left out.
func (c *Client) LLDP(ctx context.Context, node string) ([]LLDP, error) {
	return get[[]LLDP](ctx, c, "/v1/lldp", nodeQuery(node))
}
