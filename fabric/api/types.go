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

// States of a link.
const (
	LinkUp       = "up"
	LinkDown     = "down"
	LinkImpaired = "impaired" // up, with an impairment in at least one direction
)

// End is one end of a link.
type End struct {
	Node string `json:"node"`
	Port string `json:"port"` // eth1, eth2, …
}

// Impair is what is wrong with one direction of a link.
type Impair struct {
	Down      bool    `json:"down"`
	Blackhole bool    `json:"blackhole"` // carrier up, nothing arrives
	Loss      float64 `json:"loss"`      // probability per frame, 0 to 1
	DelayNs   int64   `json:"delayNs"`   // in addition to the link's own
	Rate      float64 `json:"rate"`      // fraction of the link's rate, above 0 up to 1; 1 is unimpaired
}

// Direction is one direction of a link: what is wrong with it and the counters of its sending port.
type Direction struct {
	Impair   Impair            `json:"impair"`
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// LinkStatus is a link as it is now.
type LinkStatus struct {
	Name    string    `json:"name"`
	A       End       `json:"a"`
	B       End       `json:"b"`
	RateBps int64     `json:"rateBps"`
	DelayNs int64     `json:"delayNs"` // propagation
	State   string    `json:"state"`
	AB      Direction `json:"ab"` // from A to B
	BA      Direction `json:"ba"`
}

// Operations of a LinkChange.
const (
	LinkOpFail      = "fail"
	LinkOpRestore   = "restore" // up again and free of every impairment
	LinkOpSet       = "set"
	LinkOpBlackhole = "blackhole"
)

// LinkSet holds the impairments to change; what is nil stays as it is.
type LinkSet struct {
	Down      *bool    `json:"down,omitempty"`
	Blackhole *bool    `json:"blackhole,omitempty"`
	Loss      *float64 `json:"loss,omitempty"`    // probability per frame, 0 to 1
	DelayNs   *int64   `json:"delayNs,omitempty"` // in addition to the link's own
	Rate      *float64 `json:"rate,omitempty"`    // fraction of the link's rate, above 0 up to 1
}

// LinkChange asks for a change of a link at one virtual time.
type LinkChange struct {
	Op   string  `json:"op"`
	From string  `json:"from,omitempty"` // node: only the direction that it sends in; empty = both
	Set  LinkSet `json:"set,omitzero"`   // for LinkOpSet
	// At is the virtual time: empty = as soon as every node can know of it; "+50us" = after the start of the run that runs,
	// else of the next one; "1.5ms" = since the lab came up.
	At string `json:"at,omitempty"`
}

// Values of LinkChangeResult.When.
const (
	WhenNow     = "now"      // takes effect at AtNs
	WhenThisRun = "this run" // at RelNs after the start of the run that runs
	WhenNextRun = "next run" // at RelNs after the start of the next run; AtNs is not known yet
)

// LinkChangeResult says when a change takes effect.
type LinkChangeResult struct {
	Link       string `json:"link"`
	When       string `json:"when"`
	AtNs       int64  `json:"atNs"`       // virtual, since the lab came up; 0 for WhenNextRun
	RelNs      int64  `json:"relNs"`      // virtual, since the start of the run
	RoutesAtNs int64  `json:"routesAtNs"` // virtual, when the rest of the fabric routes accordingly; -1 = never, 0 = no change of routes
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

// PDCStats describe one packet delivery context.
type PDCStats struct {
	ID       uint32            `json:"id"`   // local PDCID
	Peer     string            `json:"peer"` // node
	PeerID   uint32            `json:"peerId"`
	State    string            `json:"state"`
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// NodeStats are all counters of a node.
type NodeStats struct {
	Name  string            `json:"name"`
	Kind  string            `json:"kind"`
	Ports []PortStats       `json:"ports"`
	FEP   map[string]uint64 `json:"fep,omitempty"`
	PDCs  []PDCStats        `json:"pdcs,omitempty"`
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
