package main

const (
	notInPorts = "two state machines back to back: a port has one lossless channel, with a limit of its own, for all of a run"
)

// reasons says why a requirement, or a whole group, has no test yet; with tests, what these leave out.
var reasons = map[string]string{
	"PHY": "link layer",
	"INC": "in-network collectives",

	"G14": "shown by bytes in flight of a fixed window, not with congestion control on",

	"ECN-04":  "waits for receiver credit (RCCC)",
	"LLR-26":  "with bit errors; the model of codewords waits for PHY statistics",
	"CBFC-04": notInPorts,
	"CBFC-05": notInPorts,
	"CBFC-14": notInPorts,
}
