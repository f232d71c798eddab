package nodecore

import (
	"encoding/json"
	"testing"

	"github.com/uetlab/uetlab/internal/ctl"
)

// leastBuffer is what a socket takes of a sender without rights: twice net.core.wmem_max as Linux has it, less the
// kernel's own share.
const leastBuffer = 2*212992 - 32

// TestLargestFabricsFitAMessage configures and reroutes the switches of large fabrics.
func TestLargestFabricsFitAMessage(t *testing.T) {
	for _, name := range []string{"fat-tree-k8", "fat-tree-k16"} {
		p := plan(t, name)
		largest := 0
		for id, routes := range p.Routes(nil) {
			for _, m := range []ctl.Message{{Config: Config(p, id, 1, routes)}, {Changes: []ctl.Change{{Port: -1, Routes: Groups(routes)}}}} {
				b, err := json.Marshal(&m)
				if err != nil {
					t.Fatal(err)
				}
				largest = max(largest, len(b))
			}
		}
		t.Logf("%s: %d nodes, largest message %d bytes", name, len(p.Nodes), largest)
		if largest > leastBuffer {
			t.Errorf("%s: a message of %d bytes; an ordinary user's socket takes %d", name, largest, leastBuffer)
		}
	}
}
