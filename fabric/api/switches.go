package api

import (
	"context"
	"net/url"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/internal/link"
	"github.com/uetlab/uetlab/switchd"
)

// SwitchStatus is a switch as it is now.
type SwitchStatus struct {
	Name     string              `json:"name"`
	State    string              `json:"state"` // as NodeStatus.State
	Ports    int                 `json:"ports"`
	Routes   int                 `json:"routes"`   // prefixes, around the links that are down
	Settings []topology.KeyValue `json:"settings"` // in force, in the words of the topology file
	Changed  []SettingChange     `json:"changed"`  // where they are not the topology's
	Pending  []SwitchPending     `json:"pending"`  // changes that lie ahead
	Resolved switchd.Settings    `json:"resolved"` // Settings worked out
	Live     *switchd.Status     `json:"live,omitempty"`
}

// SettingChange is a setting that is not what the topology says. An empty value is a setting that says nothing.
type SettingChange struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Topology string `json:"topology"`
}

// SwitchPending is a change that lies ahead.
type SwitchPending struct {
	When        string   `json:"when"`                  // WhenNow or WhenNextRun
	AtNs        int64    `json:"atNs"`                  // virtual, since the lab came up, or since the start of the next run
	Assignments []string `json:"assignments,omitempty"` // none: back to the topology's settings
}

// SwitchChange asks for new settings of switches, at one virtual time for all of them.
type SwitchChange struct {
	Switches    []string `json:"switches"`              // names, or patterns such as leaf*
	Assignments []string `json:"assignments,omitempty"` // "ecn.kmin=10%", as topology.Plan.SetSwitch takes them; none with Reset
	Reset       bool     `json:"reset,omitempty"`       // back to the topology's settings
	At          string   `json:"at,omitempty"`          // as LinkChange.At
}

// SwitchChangeResult says when the new settings of a switch are in force.
type SwitchChangeResult struct {
	Switch string `json:"switch"`
	When   string `json:"when"`  // as LinkChangeResult.When
	AtNs   int64  `json:"atNs"`  // virtual, since the lab came up; 0 for WhenNextRun
	RelNs  int64  `json:"relNs"` // virtual, since the start of the run
}

// QueueStats is one egress queue that has seen a frame.
type QueueStats struct {
	Node     string                    `json:"node"`
	Port     string                    `json:"port"`
	Queue    int                       `json:"queue"`
	Class    string                    `json:"class"`    // name of the queue in topology files
	Counters map[string]uint64         `json:"counters"` // those that are not 0, by link.QueueCounter
	Depth    [link.DepthBuckets]uint64 `json:"depth"`    // of the latest run, as link.QueueStats has it
}

// Switches gives one switch, or all in the order of the plan where name is empty.
func (c *Client) Switches(ctx context.Context, name string) ([]SwitchStatus, error) {
	return get[[]SwitchStatus](ctx, c, "/v1/switches", nodeQuery(name))
}

// SetSwitches changes settings of switches.
func (c *Client) SetSwitches(ctx context.Context, ch SwitchChange) ([]SwitchChangeResult, error) {
	var r []SwitchChangeResult
	err := c.post(ctx, "/v1/switches", ch, &r)
	return r, err
}

// Queues gives the queues of one node, or of all in the order of the plan where node is empty. A node that does not
// answer is left out.
func (c *Client) Queues(ctx context.Context, node string) ([]QueueStats, error) {
	return get[[]QueueStats](ctx, c, "/v1/queues", nodeQuery(node))
}

func nodeQuery(name string) url.Values {
	q := url.Values{}
	if name != "" {
		q.Set("node", name)
	}
	return q
}
