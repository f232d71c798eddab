package wire

import "strconv"

// PSN is a packet sequence number. It wraps: compare with Before and After, never with < (uet-wire 0.1).
type PSN uint32

// Before reports whether p comes before q in serial order.
func (p PSN) Before(q PSN) bool { return int32(p-q) < 0 }

// After reports whether p comes after q in serial order.
func (p PSN) After(q PSN) bool { return int32(p-q) > 0 }

// Add returns the PSN n places further on; n may be negative.
func (p PSN) Add(n int32) PSN { return p + PSN(n) }

// Diff returns p − q as a signed distance.
func (p PSN) Diff(q PSN) int32 { return int32(p - q) }

// String prints the number in decimal.
func (p PSN) String() string { return strconv.FormatUint(uint64(p), 10) }
