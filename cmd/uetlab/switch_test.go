package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/api"
	"github.com/uetlab/uetlab/internal/link"
)

// TestSwitchRequests looks at what the daemon is asked for.
func TestSwitchRequests(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	for words, want := range map[string]string{
		"switch set leaf0 ecn.kmin=10% spine* trim.disable=[10.0.0.0/8] --at +30us": `POST /v1/switches {"switches":["leaf0","spine*"],"assignments":["ecn.kmin=10%","trim.disable=[10.0.0.0/8]"],"at":"+30us"}`,
		"switch reset leaf*":         `POST /v1/switches {"switches":["leaf*"],"reset":true}`,
		"switch show leaf0":          "GET /v1/switches?node=leaf0",
		"switch ls":                  "GET /v1/switches",
		"switch queues":              "GET /v1/queues",
		"switch queues host0 --hist": "GET /v1/queues?node=host0",
	} {
		f.got = nil
		if o := runLine(t, context.Background(), words); o.code != 0 || o.err != "" {
			t.Errorf("%s: code %d, %s", words, o.code, o.err)
		}
		if !slices.Equal(f.got, []string{want}) {
			t.Errorf("%s asks for %q, want %q", words, f.got, want)
		}
	}
}

func TestSwitchCommandLinesThatAreWrong(t *testing.T) {
	here(t)
	f := fakeLab(t, "one")
	for words, want := range map[string]string{
		"switch set ecn.kmin=10% ecn.kmax=20%":        "of which switch",
		"switch set leaf0 leaf1":                      "nothing to set",
		"switch set leaf0":                            "needs NODE",
		"switch set leaf0 ecn.kmin=10% --at soon":     "not a virtual time",
		"switch reset":                                "needs NODE",
		"switch show":                                 "needs NODE",
		"switch":                                      "which of its commands",
		"switch list":                                 "no such command",
		"switch show leaf0 leaf1":                     "one argument too many",
		"switch queues leaf0 spine0":                  "one argument too many",
		"switch set leaf0 ecn.kmin=10% --format text": "not a format",
	} {
		if o := runLine(t, context.Background(), words); o.code != api.CodeUsage || !strings.Contains(o.err, want) {
			t.Errorf("%s: code %d, %q; want code %d, %q", words, o.code, o.err, api.CodeUsage, want)
		}
	}
	if f.got != nil {
		t.Errorf("the daemon was asked for %q", f.got)
	}
}

func TestDepthsAreNamed(t *testing.T) {
	for i, want := range map[int]string{0: "found empty", 1: "below 256B", 16: "below 8388608B", link.DepthBuckets - 1: "from 8388608B"} {
		if got := bucketName(i); got != want {
			t.Errorf("bucket %d: %q, want %q", i, got, want)
		}
	}
}
