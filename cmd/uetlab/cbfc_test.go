package main

import (
	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/ctl"
)

// fakeCredits has a link that uses one channel and has frames of another wait, and one whose channels share a total and drain.
func fakeCredits() []api.Credits {
	end := func(node, port string) api.End { return api.End{Node: node, Port: port} }
	return []api.Credits{
		{Link: "host0-host1", From: end("host0", "eth1"), To: end("host1", "eth1"), Credits: ctl.Credits{Port: "eth1", VC: 1, Class: "data", State: "on", Limit: 1000, Used: 250, Peak: 900, Consumed: 41_250, Freed: 41_000,
			BlockedNs: 12_500, CreditsReceived: ctl.CreditsReceived{Receives: true, RxHeld: 200, RxPeak: 850, RxConsumed: 41_240, RxFreed: 41_040}}},
		{Link: "host0-host1", From: end("host0", "eth1"), To: end("host1", "eth1"), Credits: ctl.Credits{Port: "eth1", VC: 3, Class: "control", State: "on", Limit: 100, Used: 100, Peak: 100, Consumed: 7100, Freed: 7000,
			BlockedNs: 2_000_000_000, Watchdogs: 1, CreditsReceived: ctl.CreditsReceived{Receives: true, RxHeld: 100, RxPeak: 100, RxConsumed: 7100, RxFreed: 7000}}},
		{Link: "host0-host1", From: end("host1", "eth2"), To: end("host0", "eth2"), Credits: ctl.Credits{Port: "eth2", VC: 1, Class: "data", State: "draining", Limit: 600, Shared: true, Used: 12, Peak: 600, Consumed: 99, Freed: 87,
			CreditsReceived: ctl.CreditsReceived{Receives: true, RxHeld: 12, RxPeak: 500, RxConsumed: 99, RxFreed: 87}}},
		{Link: "host0-host1", From: end("host0", "eth2"), To: end("host1", "eth2"), Credits: ctl.Credits{Port: "eth2", VC: 1, Class: "data", State: "off", Limit: 600, Shared: true}},
	}
}
