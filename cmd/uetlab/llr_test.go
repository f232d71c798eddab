package main

import (
	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
)

// fakeLLR has a direction that is in the middle of a replay, and one that has given up for good.
func fakeLLR() []api.LLR {
	host0, host1 := api.End{Node: "host0", Port: "eth1"}, api.End{Node: "host1", Port: "eth1"}
	return []api.LLR{
		{Link: "host0-host1", From: host0, To: host1, NowNs: 1_000_000, On: true,
			TX: ctl.LLRSender{State: "REPLAY", Next: 1200, Acked: 1169, Frames: 30, Bytes: 125_400, Replays: 1, AgeAtNs: 1_018_000, RTTNs: 1043,
				InNs: map[string]int64{"ADVANCE": 990_000, "REPLAY": 10_000},
				Ack: ctl.LLRLatency{Count: 1170, SumNs: 1_521_000, P50Ns: 1280, P99Ns: 2560, MaxNs: 4100,
					Buckets: []ctl.LLRBucket{{BelowNs: 1280, Count: 800}, {BelowNs: 2560, Count: 369}, {BelowNs: 4_128_768, Above: true, Count: 1}}}},
			RX:       ctl.LLRReceiver{State: "NACK_SENT", Next: 1170, Unacked: 4100, AckAtNs: 1_000_400, RefreshAtNs: 1_004_000, Spurious: 1, InNs: map[string]int64{"SEND_ACKS": 995_000, "SEND_NACK": 20, "NACK_SENT": 4980}},
			Counters: map[string]uint64{"tx_ok": 1200, "tx_replay": 4, "replay_timeouts": 1, "replayed_frames": 90}},
		{Link: "host0-host1", From: host1, To: host0, NowNs: 1_000_000, On: true,
			TX:       ctl.LLRSender{State: "FLUSH", Next: 40, Acked: 39, NoSignal: true, InNs: map[string]int64{"ADVANCE": 100_000, "FLUSH": 900_000}},
			Counters: map[string]uint64{"tx_ok": 40, "tx_replay": 3, "replay_timeouts": 3, "flushes": 1, "flushed_frames": 12}}}
}
