package faults

import (
	"errors"
	"strings"
	"testing"

	"github.com/uetlab/uetlab/fabric/topology"
)

// TestTrailersOfPlainHosts: what damages preamble or FCS is refused where a plain host has none of them, and nowhere else.
func TestTrailersOfPlainHosts(t *testing.T) {
	for _, refused := range []bool{false, true} {
		p := plan(t, "pair")
		const link = 0
		if refused {
			p.Nodes[p.Links[link].B.Node].Kind = topology.KindHost
		}
		for _, word := range []string{"poison=1%", "corrupt=1%,llr", "corrupt=1%,fcs", "exact=1:drop,2:poison", "exact=1:corrupt-llr", "exact=9:corrupt-fcs"} {
			s, err := ParseSettings([]string{word})
			if err != nil {
				t.Fatal(err)
			}
			err = (&Fault{Link: link, From: Both, Op: Change, Set: s}).Check(p)
			var e *Error
			if refused != errors.As(err, &e) || refused && (!strings.Contains(e.Msg, "plain host") || e.Hint == "") {
				t.Errorf("%s, plain host %v: %v", word, refused, err)
			}
		}
		for _, word := range []string{"poison=off", "poison=0", "corrupt=off", "corrupt=1%,payload", "corrupt=1%", "exact=1:drop,2:duplicate", "exact=off", "setloss=1%"} {
			s, err := ParseSettings([]string{word})
			if err == nil {
				err = (&Fault{Link: link, From: Both, Op: Change, Set: s}).Check(p)
			}
			if err != nil {
				t.Errorf("%s, plain host %v: %v", word, refused, err)
			}
		}
	}
}
