//go:build race

package wire

// raceEnabled says that times mean nothing.
const raceEnabled = true
