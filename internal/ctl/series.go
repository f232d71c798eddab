package ctl

// SeriesPart is a part of the answer to "series": what a node has sampled in the run, in one message's worth of it.
type SeriesPart struct {
	Ports    []PortPart    `json:"ports,omitempty"`
	Contexts []ContextPart `json:"contexts,omitempty"`
	LeftOut  int64         `json:"leftOut,omitempty"` // in the first part only
	Next     int           `json:"next,omitempty"`    // Message.From of the next part; 0: this was the last, and the node has forgotten it all
}

// PortPart is a piece of the series of a port: it follows the pieces before.
type PortPart struct {
	Port  int     `json:"port"`
	Depth []int64 `json:"depth"`
	Sent  []int64 `json:"sent"`
}

// ContextPart is a piece of the series of a congestion control context.
type ContextPart struct {
	Peer   string        `json:"peer"` // fabric address
	TC     uint8         `json:"tc"`
	Points []WindowPoint `json:"points"`
}

// WindowPoint is a context right after a change of its window: virtual time in ns, bytes of the window, bytes in flight, latest RTT in
// ns, delay in ns, and the number of the cms.Decision, Opened for a context that has just begun.
type WindowPoint [6]int64

// Opened is the decision of a point that is the first of its context.
const Opened = -1

// Windows is the content of a message by which an end point tells of changes of windows, while somebody wants to know: in the order in
// which they took place.
type Windows struct {
	List []ContextPart `json:"list"`
}
