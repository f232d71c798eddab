package main

// reasons says why a requirement, or a whole group, has no test yet; with tests, what these leave out.
var reasons = map[string]string{
	"INC": "in-network collectives",

	"G14": "shown by bytes in flight of a fixed window, not with congestion control on",
}
