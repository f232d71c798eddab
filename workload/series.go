package workload

// Series is what was sampled during a run, in steps of EveryNs of virtual time from its start. It is equal in a lab and in
// the simulator, and sampling changes nothing of the run.
type Series struct {
	EveryNs  int64           `json:"everyNs"`
	Ports    []PortSeries    `json:"ports,omitempty"`    // egress ports of switches and end points, in the order of the plan
	Contexts []ContextSeries `json:"contexts,omitempty"` // congestion control contexts, in the order of the plan's end points
	LeftOut  int64           `json:"leftOut,omitempty"`  // points that found no room any more, of ports and contexts together
}

// PortSeries is one egress port. Element i covers [i*EveryNs, (i+1)*EveryNs) since the start of the run; both slices have
// the same length, and it ends with the last interval in which anything waited or was sent.
type PortSeries struct {
	Node  string  `json:"node"`
	Port  string  `json:"port"`
	Link  string  `json:"link"`
	Depth []int64 `json:"depthBytes"` // the most that waited in the interval, all queues together
	Sent  []int64 `json:"sentBytes"`  // bytes on the line whose serialization began in the interval
}

// ContextSeries is one congestion control context: what an end point knows of its way to a peer in a traffic class.
type ContextSeries struct {
	Node   string         `json:"node"`
	Peer   string         `json:"peer"`
	TC     int            `json:"tc"`
	Points []ContextPoint `json:"points"` // one a change of the window, in order
}

// ContextPoint is a context right after a change of its window.
type ContextPoint struct {
	AtNs     int64  `json:"atNs"`     // virtual, since the start of the run
	Cwnd     int64  `json:"cwnd"`     // bytes
	InFlight int64  `json:"inFlight"` // bytes
	RTTNs    int64  `json:"rttNs"`    // last measured; 0 before the first
	DelayNs  int64  `json:"delayNs"`  // queuing delay that the decision was made with
	Decision string `json:"decision"` // what changed the window: a name of cms.Decision
}
