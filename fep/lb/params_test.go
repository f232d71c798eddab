package lb

import (
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestParse(t *testing.T) {
	for _, name := range Names() {
		p, err := Parse(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Resolve(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, k := range map[string]int{"mp": 8, "mp-8": 8, "mp-1": 1, "mp-256": 256} {
		p, err := Parse(name)
		if err == nil {
			err = p.Resolve()
		}
		if err != nil || p.Algorithm != MP || p.SubPaths != k {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, want := range map[string]string{
		"rep":      `load balancer "rep": unknown; did you mean reps?`,
		"OBLIVIUS": "did you mean oblivious?",
		"bitmaps":  "did you mean bitmap?",
		"flowlets": "did you mean flowlet?",
		"mp8":      "did you mean mp-8?",
		"":         "use one of reps, reps-legacy, oblivious, bitmap, mixed, spray, ecmp, fixed, plb, flowlet, uccl, mp-8",
		"zzz":      "use one of",
		"mp-":      "outside 1..256",
		"mp-0":     "outside 1..256",
		"mp-257":   "outside 1..256",
		"mp-+8":    "outside 1..256",
		"mp-x":     "outside 1..256",
	} {
		if p, err := Parse(name); err == nil || !strings.Contains(err.Error(), want) || p != (Params{}) {
			t.Errorf("%q: %+v, %v; want %q", name, p, err, want)
		}
	}
}

func TestResolve(t *testing.T) {
	var p Params
	if err := p.Resolve(); err != nil {
		t.Fatal(err)
	}
	want := Params{Algorithm: REPS, EVs: 256, RTT: 12 * us, RTO: ms, Freeze: 10 * ms, Explore: 16, Lifetime: 1, FirstWindow: 256,
		PenaltyECN: 1, PenaltyNack: 4, PenaltyTimeout: 15, Reroute: 120 * us, RerouteOn: OnTimeout, PLBShare: 0.25, PLBRounds: 2,
		PLBIdleRounds: 1, FlowletGap: 6 * us, FlowletHold: ms, SubPaths: 8, Chunk: 32768, SmallMsg: 8192, SmallRun: 16384}
	if p != want {
		t.Errorf("defaults %+v\nwant %+v", p, want)
	}
	if err := p.Resolve(); err != nil || p != want {
		t.Errorf("a second time: %+v, %v", p, err)
	}
}

func TestResolveErrors(t *testing.T) {
	for want, p := range map[string]Params{
		"EVs 100: is no power of two in 1..65536 (reps)":          {EVs: 100},
		"EVs -1: is no power of two":                              {EVs: -1},
		"EVs 131072: is no power of two":                          {EVs: 1 << 17},
		"EVs 8192: is no power of two in 1..4096 (bitmap)":        {Algorithm: Bitmap, EVs: 8192},
		"in 1..4096 (mixed)":                                      {Algorithm: Mixed, EVs: 8192},
		"in 1..4096 (uccl)":                                       {Algorithm: UCCL, EVs: 8192},
		"did you mean reps?":                                      {Algorithm: "rops"},
		`load balancer "mp-9": has its number`:                    {Algorithm: "mp-9"},
		"explore 256: outside -1..255":                            {Explore: 256},
		"lifetime 16: outside 1..15":                              {Lifetime: 16},
		"lifetime -1: outside 1..15":                              {Lifetime: -1},
		"first window -1: outside 1..65536":                       {FirstWindow: -1},
		"penalty for ECN 16: outside -1..15":                      {PenaltyECN: 16},
		"penalty for NACK 16: outside -1..15":                     {PenaltyNack: 16},
		"penalty for timeout 16: outside -1..15":                  {PenaltyTimeout: 16},
		"PLB rounds 256: outside 1..255":                          {PLBRounds: 256},
		"PLB idle rounds 3: outside 1..2":                         {PLBIdleRounds: 3},
		"PLB share 1.5: is not above 0 and at most 1":             {PLBShare: 1.5},
		"PLB share NaN":                                           {PLBShare: math.NaN()},
		"sub-paths 257: outside 1..256":                           {SubPaths: 257},
		"chunk -1: outside 1..1073741824":                         {Chunk: -1},
		"small message -2: outside -1..1073741824":                {SmallMsg: -2},
		"small run -1: outside 1..":                               {SmallRun: -1},
		`reroute on "lunch": is none of idle, timeout, nack, ecn`: {RerouteOn: "lunch"},
		"RTT -1ns: outside 1ns..1h0m0s":                           {RTT: -1},
		"RTO 1µs: outside 12µs..1h0m0s":                           {RTO: us},
		"freeze 2h0m0s: outside":                                  {Freeze: 2 * time.Hour},
		"t_reroute 100µs: outside 120µs..10h0m0s":                 {Reroute: 100 * us},
		"flowlet gap -1ns: outside":                               {FlowletGap: -1},
		"flowlet hold -1ns: outside":                              {FlowletHold: -1},
	} {
		if _, err := NewPool(p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}

// TestSizes: what a connection costs, without the tables of bitmap, mixed and uccl and the queues of those that have one.
func TestSizes(t *testing.T) {
	for name, s := range map[string]struct{ is, most uintptr }{
		"reps":      {unsafe.Sizeof(reps{}), 56},
		"legacy":    {unsafe.Sizeof(legacy{}), 56},
		"oblivious": {unsafe.Sizeof(oblivious{}), 24},
		"bitmap":    {unsafe.Sizeof(bitmap{}), 48},
		"mixed":     {unsafe.Sizeof(mixed{}), 80},
		"spray":     {unsafe.Sizeof(spray{}), 16},
		"ecmp":      {unsafe.Sizeof(ecmp{}), 24},
		"fixed":     {unsafe.Sizeof(fixed{}), 2},
		"plb":       {unsafe.Sizeof(plb{}), 32},
		"flowlet":   {unsafe.Sizeof(flowlet{}), 32},
		"uccl":      {unsafe.Sizeof(uccl{}), 56},
		"mp":        {unsafe.Sizeof(mp{}), 8},
	} {
		t.Logf("%s: %d bytes", name, s.is)
		if s.is > s.most {
			t.Errorf("%s has %d bytes, want at most %d", name, s.is, s.most)
		}
	}
}
