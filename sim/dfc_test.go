package sim

import (
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
	"github.com/uetlab/uetlab/fep"
	"github.com/uetlab/uetlab/internal/vt"
)

// TestSlowReceiverThrottles has four end points send small messages to a fifth, which posts receives at a third of its link's rate and keeps
// what comes before them. With DFC all four slow down to what it takes, together, before its room is used up; without it is, messages are refused and
// have to be sent again (uet-cms.md section 5).
func TestSlowReceiverThrottles(t *testing.T) {
	const senders, msgs, size, every, room = 4, 1000, 4096, 250, 2 << 20
	for _, off := range []bool{false, true} {
		on := !off
		plan, f := managed(t, "fat-tree-2x4", topology.FEPParams{CC: "nscc", LB: "oblivious", Profiles: []string{"ai-base", "ai-full", "hpc"}, Unexpected: topology.Size{Bytes: room},
			Signals: topology.SignalParams{DFC: &on}})
		ids := hosts(plan)[:senders+1]
		sent, received := [senders + 1]int{}, 0
		var last vt.Time
		var eps []*fep.Endpoint
		for i, id := range ids {
			eps = append(eps, f.nodes[id].FEP.OpenEndpoint(9, uint16(i), uint32(i), func(_ vt.Time, c fep.Completion) {
				switch {
				case c.Err != nil:
					t.Errorf("end point %d: %v", i, c.Err)
				case i == 0:
					received++
					last = max(last, c.Acked)
				default:
					sent[i]++
				}
			}))
		}
		for i := range eps {
			for j := range eps {
				eps[i].InsertAddr(plan.Nodes[ids[j]].Addr4, uint16(j), uint32(j))
			}
		}
		for i := 1; i <= senders; i++ {
			f.nodes[ids[i]].Call(1000, func(now vt.Time) {
				for range msgs {
					if err := eps[i].TagSend(now, 0, make([]byte, size), 7, 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range senders * msgs {
			f.nodes[ids[0]].Call(vt.Time(1000+every*i), func(now vt.Time) { _ = eps[0].TagRecv(now, -1, make([]byte, size), 7, 1) })
		}
		most, slowest := uint64(0), vt.Time(0)
		for f.step(vt.Time(2_000_000_000)) {
			most = max(most, f.nodes[ids[0]].FEP.C[fep.EarlyBytes])
			slowest = f.now
		}
		var again uint64
		for _, id := range ids {
			again += f.nodes[id].FEP.C[fep.Restarts]
		}
		t.Logf("DFC off %v: %d received, the last at %v, at most %d bytes kept, %d messages sent again, end %v", off, received, last, most, again, slowest)
		if received != senders*msgs {
			t.Errorf("DFC off %v: %d of %d messages received", off, received, senders*msgs)
		}
		if !off && (again != 0 || most >= room) {
			t.Errorf("DFC: %d messages were refused, %d bytes kept", again, most)
		}
		if off && again == 0 {
			t.Error("without DFC nothing is refused: the test shows nothing")
		}
		if pace := vt.Time(1000 + every*(senders*msgs-1)); !off && last > pace+pace/10 {
			t.Errorf("the last message arrived at %v, the receiver's pace is %v", last, pace)
		}
	}
}
