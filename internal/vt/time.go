// Package vt has virtual time: the instant type that every core and every link works in, and the event
// queue that gives all nodes the same order of events. It reads no clock.
package vt

import (
	"math"
	"strconv"
	"time"
)

// Time is a virtual instant in nanoseconds since the lab came up.
type Time int64

// Never is later than every event.
const Never Time = math.MaxInt64

// Add gives t + d nanoseconds; Never stays Never.
func (t Time) Add(d time.Duration) Time {
	if t == Never {
		return Never
	}
	return t + Time(d)
}

// Sub gives the distance t - u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// String prints the instant as a duration since the lab came up, "never" for Never.
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	if t >= 0 && t < 1000 {
		return strconv.FormatInt(int64(t), 10) + "ns"
	}
	return time.Duration(t).String()
}
