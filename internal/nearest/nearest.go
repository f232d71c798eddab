// Package nearest finds the word that somebody most likely meant, for messages about one that is not known. It decides
// nothing: what it finds is a hint.
package nearest

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Word is the valid word that got is most like, whatever its case; empty when none is near.
func Word(got string, valid []string) string {
	const near, prefix = 0.8, 4
	best, score := "", near
	for _, v := range valid {
		if s := smetrics.JaroWinkler(strings.ToLower(got), strings.ToLower(v), 0.7, prefix); s > score {
			best, score = v, s
		}
	}
	return best
}
