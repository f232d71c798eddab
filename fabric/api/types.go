package api

import (
	"time"

	"github.com/uetlab/uetlab/fabric/topology"
)

// States of a lab.
const (
	LabStarting = "starting"
	LabReady    = "ready"   // up, no workload runs
	LabRunning  = "running" // a workload runs
	LabStopping = "stopping"
	LabFailed   = "failed" // a node or the daemon died; take it down
)

// Lab describes one lab.
type Lab struct {
	Name      string    `json:"name"`
	Topology  string    `json:"topology"` // name or file that it was made from
	Runtime   string    `json:"runtime"`  // docker | embedded
	Time      string    `json:"time"`     // auto, real, or K: virtual time at most at 1/K of the wall
	Seed      uint64    `json:"seed"`
	Pid       int       `json:"pid"` // of the daemon
	State     string    `json:"state"`
	CreatedAt time.Time `json:"createdAt"`
	Version   string    `json:"version"` // of the daemon's binary
	Nodes     int       `json:"nodes"`
	Links     int       `json:"links"`
	Rootless  bool      `json:"rootless"`
	Dir       string    `json:"dir"` // lab directory
}

// States of a node.
const (
	NodeUp   = "up"
	NodeDead = "dead"
)

// NodeStatus is a node as it is now.
type NodeStatus struct {
	Name      string            `json:"name"`
	ID        int               `json:"id"`
	Kind      string            `json:"kind"` // fep | switch | host
	Tier      int               `json:"tier"` // 0 = end point, 1 = leaf, 2 = spine, 3 = core
	State     string            `json:"state"`
	Pid       int               `json:"pid,omitempty"`
	Container string            `json:"container,omitempty"`
	Addr4     string            `json:"addr4"`
	Addr6     string            `json:"addr6"`
	Ports     int               `json:"ports"`
	HorizonNs int64             `json:"horizonNs"`       // all events up to here are handled
	NextNs    int64             `json:"nextNs"`          // the node's next event; -1 = none
	Ranks     []int             `json:"ranks,omitempty"` // of the workload that runs, those on this node
	Counters  map[string]uint64 `json:"counters,omitempty"`
}

// States of the clock.
const (
	ClockResting = "resting" // nothing to do: virtual time follows the wall by idle jumps
	ClockRunning = "running"
	ClockPaused  = "paused"
	ClockReal    = "real" // --time real: no agreement
)

// Operations on the clock.
const (
	ClockPause  = "pause"
	ClockResume = "resume"
	ClockStep   = "step"
	ClockCap    = "cap"
	ClockAuto   = "auto"
)

// ClockOp asks for a change of the clock.
type ClockOp struct {
	Op     string  `json:"op"`
	StepNs int64   `json:"stepNs,omitempty"` // for ClockStep, virtual
	Cap    float64 `json:"cap,omitempty"`    // for ClockCap: K, virtual time at most at 1/K of the wall
}

// Clock is the lab's virtual time as it is now.
type Clock struct {
	State        string  `json:"state"`
	NowNs        int64   `json:"nowNs"`        // virtual, since the lab came up
	LimitNs      int64   `json:"limitNs"`      // nobody goes beyond; -1 = no limit
	Cap          float64 `json:"cap"`          // 0 = as fast as the nodes can go
	MinHorizonNs int64   `json:"minHorizonNs"` // of the node furthest behind
	MaxHorizonNs int64   `json:"maxHorizonNs"`
	Dilation     float64 `json:"dilation"` // wall time per virtual time of late; 0 = not known
}

// PortStats are the counters of a port.
type PortStats struct {
	Name     string            `json:"name"`
	Link     string            `json:"link"`
	Counters map[string]uint64 `json:"counters"`
}

// NodeStats are all counters of a node.
type NodeStats struct {
	Name  string            `json:"name"`
	Kind  string            `json:"kind"`
	Ports []PortStats       `json:"ports"`
	FEP   map[string]uint64 `json:"fep,omitempty"`
	PDCs  []PDC             `json:"pdcs,omitempty"`
}

// Event is something that happened in the lab.
type Event struct {
	Seq       uint64         `json:"seq"` // from 1, without gaps
	Wall      time.Time      `json:"wall"`
	VirtualNs int64          `json:"virtualNs"`
	Kind      string         `json:"kind"`
	Node      string         `json:"node,omitempty"`
	Link      string         `json:"link,omitempty"`
	Text      string         `json:"text"`
	Data      map[string]any `json:"data,omitempty"`
}

// UpOptions is what up asks a new lab daemon for. It stands as JSON in the lab directory before the daemon starts.
type UpOptions struct {
	Lab      string         `json:"lab"`
	Topology string         `json:"topology"` // as the user named it, for people
	Runtime  string         `json:"runtime"`  // docker | embedded
	Time     string         `json:"time"`     // auto, real, or K
	Seed     uint64         `json:"seed"`
	Rootless bool           `json:"rootless"`
	Plan     *topology.Plan `json:"plan"`
}

// Progress is one line of what the lab daemon reports while it brings a lab up. Stage "ready" and a line with an Error
// end the report.
type Progress struct {
	Stage string `json:"stage"`
	Done  int    `json:"done,omitempty"`
	Total int    `json:"total,omitempty"`
	Text  string `json:"text,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// StageReady is the last stage of Progress.
const StageReady = "ready"
