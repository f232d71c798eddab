// Package perf measures latency and bandwidth between two processes that are attached to end points, in the manner of perftest and of
// libfabric's fi_pingpong: ping-pong of messages, or a window of operations that is kept full. Each of the two processes runs one Side;
// they exchange addresses and keys, and agree on when a measurement begins, by messages over the fabric itself. It knows no lab, starts no
// process, and does not touch the measured operations but to check their data when that is wanted.
//
// Times are those of the attachment: virtual and exact in a lab in virtual time, the wall's with --time real.
package perf
