package switchd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/internal/link"
)

// Status tells of queues, buffer and pauses what has happened, nothing of what has not, and all in JSON.
func TestStatus(t *testing.T) {
	set := plan()
	set.Buffer.Shared = 600_000
	set.Queues[1].Limit, set.Queues[1].Trim, set.Queues[1].Alpha = 0, false, 1
	r := newRig(t, set, 400*gig, gig)
	if st := r.s.Status(0); len(st.Queues) != 0 || len(st.PFC) != 0 || st.Buffer != (BufferStatus{Size: 600_000, Pool: 400_000}) {
		t.Errorf("before anything: %+v", st)
	}
	r.send(70, pkt{to: 1, size: 1000, dscp: dscpRoCE})
	r.send(500, pkt{to: 1, size: 1000, dscp: dscpData})
	r.pausePort(1, 4, 65535)
	st := r.s.Status(r.Now())
	if len(st.Queues) != 2 || st.Queues[0].Queue != 1 || st.Queues[1].Queue != 4 || st.Queues[1].Port != 1 {
		t.Fatalf("queues %+v", st.Queues)
	}
	var found uint64
	for _, n := range st.Queues[0].Depth {
		found += n
	}
	if c := st.Queues[0].Counters; c["bytes"] != 200_000 || c["dropped_frames"] != 300 || found != 200 {
		t.Errorf("data queue: %v, %d in the histogram", c, found)
	}
	if b := st.Buffer; b.Used != r.Ports[1].Backlog() || b.Peak != b.Used || b.Shared != 200_000 || b.Full != 300 {
		t.Errorf("buffer %+v", b)
	}
	if len(st.PFC) != 2 {
		t.Fatalf("PFC %+v", st.PFC)
	}
	if in := st.PFC[0]; in.Port != 0 || in.Priority != 4 || !in.Pausing || in.Pauses != 1 || in.Bytes != 69_000 || in.Paused {
		t.Errorf("ingress %+v", in)
	}
	if out := st.PFC[1]; out.Port != 1 || !out.Paused || out.Pausing || out.Bytes != 0 {
		t.Errorf("egress %+v", out)
	}
	b, err := json.Marshal(st)
	if err != nil || !strings.Contains(string(b), `"pausing":true`) {
		t.Errorf("%s, %v", b, err)
	}
	r.drain()
	const pause = 65535 * 512 // ns: bit times at 1 Gb/s
	if st := r.s.Status(r.Now()); st.Buffer.Used != 0 || st.Buffer.Shared != 0 || st.PFC[1].PausedNs != pause || st.PFC[0].Pausing {
		t.Errorf("in the end %+v", st)
	}
	if r.Ports[1].C[link.DropQueue] != 300 {
		t.Errorf("%d dropped", r.Ports[1].C[link.DropQueue])
	}
}
