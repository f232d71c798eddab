package topology

import (
	"slices"
	"strings"
	"testing"
)

// TestProfilesIncludeOthers reads one profile, a list, and what a node says for itself.
func TestProfilesIncludeOthers(t *testing.T) {
	const text = `name: x
fabric: {kind: star, hosts: 4}
defaults: {fep: {profile: hpc, eager: 4KiB, rtr: 0}}
nodes:
  host1: {profile: [hpc, ai-base], unexpected: 0B}
  host2: {profile: ai-base, ackData: 0B, tooLong: reject}
`
	s, err := Parse("x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := BuildPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	base, full, hpc := ProfileAIBase, ProfileAIFull, ProfileHPC
	for name, want := range map[string]FEPConfig{
		"host0": {Profiles: []string{base, full, hpc}, Eager: 4096, Unexpected: 1 << 20, TooLong: "truncate", AckData: 16},
		"host1": {Profiles: []string{base, hpc}, Eager: 4096, TooLong: "truncate", AckData: 16},
		"host2": {Profiles: []string{base}, Eager: 4096, Unexpected: 1 << 20, TooLong: TooLongReject},
	} {
		n, err := p.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		got := n.FEP
		if !slices.Equal(got.Profiles, want.Profiles) || got.Eager != want.Eager || got.Threshold != 8192 || got.Unexpected != want.Unexpected || got.RTR != want.RTR || got.TooLong != want.TooLong || got.AckData != want.AckData {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if _, err := Parse("x.yaml", []byte(strings.Replace(text, "profile: hpc", "profile: hcp", 1))); err == nil || !strings.Contains(err.Error(), "x.yaml:3:") || !strings.Contains(err.Error(), "hpc") {
		t.Errorf("a misspelt profile: %v", err)
	}
}
