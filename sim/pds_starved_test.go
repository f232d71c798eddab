package sim

import (
	"fmt"
	"testing"

	"github.com/uetlab/uetlab/fep"
)

// deliverSeed plays one seed of TestDeliveryProperty.
func deliverSeed(t *testing.T, seed uint64) *delivery {
	t.Helper()
	d := newDelivery(t, seed)
	d.run(d.rng.IntN(4) == 0)
	d.check()
	if t.Failed() {
		d.dump()
		t.Fatalf("repeat with UETLAB_PDS_SEED=%d UETLAB_PDS_SEEDS=1: %s", seed, d.what)
	}
	return d
}

// TestDeliveryStarved plays fabrics in which a target has room for one or two messages at a time, and small windows lose half of what they
// send. What was refused for want of room filled them so much that the message which had the room did not get on, until the target gave
// it up: thousands of refusals, and messages that failed. With turns there are some hundreds at most. In one (1006924) both ends had opened all
// their PDCs to each other; in 900004385 an ordered message that waited for a PDC was overtaken.
func TestDeliveryStarved(t *testing.T) {
	for _, seed := range []uint64{447, 1002219, 1005552, 1006197, 1006924, 900004385, 787699823345928590, 1376094426040346630, 5385791543977294363, 6323430394418134234} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := deliverSeed(t, seed)
			var refused uint64
			for _, h := range d.hosts {
				refused += d.f.nodes[h].FEP.C[fep.NackTxRes]
			}
			if d.failed > 0 || refused > 1000 {
				t.Errorf("%s: %d operations failed, %d packets were refused", d.what, d.failed, refused)
			}
			t.Logf("%d refused", refused)
		})
	}
}
