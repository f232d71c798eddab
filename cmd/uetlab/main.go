// Command uetlab brings up an Ultra Ethernet fabric on one Linux machine, breaks its links, runs workloads on it and
// watches its packets. This package reads command lines and prints answers; what the answers are is decided by the lab
// daemon and the packages under fabric. The same binary is the program of every node and of the daemon.
package main

import (
	"context"
	"os"
)

func main() {
	// A node starts here before anything of the command line is set up: hundreds of them start at once.
	if len(os.Args) > 1 && os.Args[1] == nodeName {
		os.Exit(nodeMain(os.Args[2:]))
	}
	s := &signals{}
	u := &ui{in: os.Stdin, out: &counter{Writer: os.Stdout}, err: os.Stderr, signals: s}
	os.Exit(run(s.watch(context.Background()), u, os.Args[1:]))
}
