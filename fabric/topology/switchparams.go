package topology

import (
	"net/netip"
	"reflect"
	"time"

	"github.com/uetlab/uetlab/internal/link"
)

// SwitchParams describe a switch as a file, or an assignment to a running one, writes it. What is not said is zero here and
// keeps what held before.
type SwitchParams struct {
	Latency *time.Duration      // from last bit in to queue; default 500 ns
	Buffer  Size                // of each port's data queues; default auto
	Hash    string              // short for ECMP.Hash
	Classes [numDSCP]*int       // DSCP → queue; default by the section dscp
	Weight  [link.NumPorts]*int // ECMP weight of each port; default 1
	Shared  SharedParams        // memory of all queues together
	ECN     ECNParams           // of the data queues
	Trim    TrimParams          //
	ECMP    ECMPParams          //
	Queues  [link.NumQueues]QueueParams
	PFC     PFCParams
	CSIG    CSIGParams
	Mirror  MirrorParams
}

// SharedParams describe the memory that all queues of a switch share.
type SharedParams struct {
	Size     Size // None: no limit but those of the queues
	Reserved Size // of each queue of each port
}

// ECNParams describe marking.
type ECNParams struct {
	Enabled    *bool
	Kmin, Kmax Size
	Pmax       *int64 // millionths
	WRED       *bool
	LastHop    string // auto, on, off
}

// TrimParams describe packet trimming.
type TrimParams struct {
	Enabled   *bool
	Size      Size
	Victim    string // arriving, coin
	FixIP     *bool
	RetxLimit Size
	Trimmable []int // DSCPs
	Disable   []netip.Prefix
}

// ECMPParams say how a port is chosen of several.
type ECMPParams struct {
	Hash       string
	Fields     []string
	Group      string
	Buckets    int
	IdleTimer  *time.Duration
	Weights    string
	Balance    string
	FlowletGap *time.Duration // autoTime: half the base RTT
	Bands      *int
}

// QueueParams describe one of the queues that each port has.
type QueueParams struct {
	Strict     *bool
	Weight     int
	Limit      Size
	Alpha      *float64
	ECN        *bool
	Kmin, Kmax Size
	Pmax       *int64 // millionths
	WRED       *bool
	Trim       *bool
	Lossless   *bool
}

// PFCParams describe priority flow control.
type PFCParams struct {
	Enabled             *bool
	Xoff, Xon, Headroom Size
	Quanta              int
	Watchdog, Restore   *time.Duration
	Action              string
}

// CSIGParams describe in-band congestion signalling.
type CSIGParams struct {
	Enabled       *bool
	Compact, Wide int // TPIDs
	Interval      *time.Duration
	Strip         []string // ports
}

// MirrorParams describe the copying of packets to a port.
type MirrorParams struct {
	To     string // port, or off
	Sample int
	From   string // port, or any
}

// autoTime stands for the word auto where a duration is expected.
const autoTime = time.Duration(-2)

// laid lays the values that top says over those of base.
func laid[T any](top, base T) T {
	lay(reflect.ValueOf(&base).Elem(), reflect.ValueOf(&top).Elem())
	return base
}

var sizeType = reflect.TypeFor[Size]()

func lay(base, top reflect.Value) {
	switch {
	case top.Kind() == reflect.Struct && top.Type() != sizeType:
		for i := range top.NumField() {
			lay(base.Field(i), top.Field(i))
		}
	case top.Kind() == reflect.Array:
		for i := range top.Len() {
			lay(base.Index(i), top.Index(i))
		}
	case !top.IsZero():
		base.Set(top)
	}
}

// explicit gives p with its short forms written out.
func (p SwitchParams) explicit() SwitchParams {
	if p.Hash != "" {
		p.ECMP.Hash, p.Hash = p.Hash, ""
	}
	return p
}
