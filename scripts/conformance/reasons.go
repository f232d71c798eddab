package main

// reasons says why a requirement, or a whole group, has no test yet; with tests, what these leave out.
var reasons = map[string]string{
	"LLR":  "link layer",
	"CBFC": "link layer",
	"LLDP": "link layer",
	"PHY":  "link layer",
	"INC":  "in-network collectives",

	"B14": "waits for sender congestion control (NSCC), whose base RTT the probe measures",
	"F14": "the penalty of the entropy value waits for congestion management",
	"G14": "shown by bytes in flight; a counter of the congestion window waits for congestion management",

	"ECN-04": "waits for receiver credit (RCCC)",
	"PFC-02": "with LLR on waits for the link layer",
	"PFC-04": "waits for LLR in the link layer",
}
