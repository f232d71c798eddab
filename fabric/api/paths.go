package api

import (
	"context"
	"net/url"
	"strconv"

	"github.com/uetlab/uetlab/internal/ctl"
)

// Paths is what an end point knows of the ways to another one, and the ways that the switches really give its entropy values (EV) now.
type Paths struct {
	Node   string         `json:"node"`
	Peer   string         `json:"peer"`
	Counts bool           `json:"counts"` // packets are counted by EV, from now on at the latest
	PDCs   []ctl.PDCPaths `json:"pdcs"`   // that are open; without EVs, which are in EVs
	EVs    []PathEV       `json:"evs"`    // of these PDCs; of a flow that is none where they know of none
	Routes []PathRoute    `json:"routes"` // EVs of one way together, the most used first
}

// Health of an EV or a route.
const (
	HealthGood      = "good"      // the latest feedback was, or the balancer keeps it for use
	HealthMarked    = "marked"    // the latest feedback was a mark of congestion
	HealthPenalised = "penalised" // the balancer passes it for a while
	HealthFrozen    = "frozen"    // good, and the balancer uses no others while packets vanish
	HealthTrimmed   = "trimmed"   // the latest feedback was a packet trimmed inside the fabric
	HealthLost      = "lost"      // … a packet that was lost
	HealthDead      = "dead"      // a link on the way is down, or there is no way
	HealthUnknown   = "-"         // nothing was heard of it
)

// PathEV is one EV and its way.
type PathEV struct {
	PDC    uint16   `json:"pdc"`             // 0: of a flow that is none
	Route  []string `json:"route"`           // switches, in order
	Ports  []string `json:"ports"`           // egress ports of the end point and of them
	End    string   `json:"end,omitempty"`   // why the way is not known to the peer
	Fault  string   `json:"fault,omitempty"` // what is wrong with links on it
	Health string   `json:"health"`
	Share  float64  `json:"share"` // of all packets; of all EVs where none were counted
	ctl.EV
}

// PathRoute is one way.
type PathRoute struct {
	Route   []string `json:"route"`
	End     string   `json:"end,omitempty"`
	Fault   string   `json:"fault,omitempty"`
	Health  string   `json:"health"` // dead, or what most of its packets, else its EVs, are
	EVs     int      `json:"evs"`
	Packets uint64   `json:"packets"`
	Bytes   uint64   `json:"bytes"`
	Share   float64  `json:"share"` // as PathEV.Share
}

// Paths gives the ways from an end point to another one. evs is how many EVs are looked at where no PDC knows of any.
func (c *Client) Paths(ctx context.Context, node, peer string, evs int) (Paths, error) {
	return get[Paths](ctx, c, "/v1/paths", url.Values{"node": {node}, "peer": {peer}, "evs": {strconv.Itoa(evs)}})
}
