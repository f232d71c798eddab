package main

const (
	notObeyed = "two agents back to back: no port obeys what they agree on yet"
)

// reasons says why a requirement, or a whole group, has no test yet; with tests, what these leave out.
var reasons = map[string]string{
	"INC": "in-network collectives",

	"G14": "shown by bytes in flight of a fixed window, not with congestion control on",

	"ECN-04":  "waits for receiver credit (RCCC)",
	"LLDP-02": notObeyed,
	"LLDP-03": notObeyed,
	"LLDP-05": notObeyed,
}
