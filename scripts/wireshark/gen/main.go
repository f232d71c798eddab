// Command gen writes uet.lua, the Wireshark dissector, from the field tables of package wire and the hand-written parts
// beside it: names, places, widths, code points and conditions of all fields come from the tables, and only the order in
// which headers follow each other is written by hand. It refuses nothing; the test beside it tells when uet.lua is old.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], generate(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
