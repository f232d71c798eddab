package topology

import (
	"cmp"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// Profiles of the standard, as a file says them; each has what those before it have.
const (
	ProfileAIBase = "ai-base"
	ProfileAIFull = "ai-full"
	ProfileHPC    = "hpc"
)

var profileWords = []string{ProfileAIBase, ProfileAIFull, ProfileHPC}

// What an end point of which a file says nothing does with messages (uet-pds-ses.md section 20).
const (
	defaultThreshold  = 8 << 10
	maxEager          = 64 << 10
	defaultUnexpected = 1 << 20
	defaultRTR        = 8
	defaultAckData    = 16
	maxRTR            = 1 << 16
	maxAckData        = 1 << 10
	wordTruncate      = "truncate"

	TooLongReject = "reject" // of FEPConfig.TooLong: the sender is told
)

// semantics says what an end point does with messages.
func (p *FEPParams) semantics(c *FEPConfig) {
	bytes := func(s Size, def int64) int64 {
		if s == (Size{}) {
			return def
		}
		return s.Bytes
	}
	c.Profiles = p.Profiles
	if c.Profiles == nil {
		c.Profiles = profileWords[:2:2]
	}
	if c.Threshold = bytes(p.Threshold, defaultThreshold); p.Threshold.None {
		c.Threshold = -1
	}
	c.Eager, c.Unexpected, c.AckData = p.Eager.Bytes, bytes(p.Unexpected, defaultUnexpected), bytes(p.AckData, defaultAckData)
	c.RTR, c.TooLong = defaultRTR, cmp.Or(p.TooLong, wordTruncate)
	if p.RTR != nil {
		c.RTR = *p.RTR
	}
}

// profiles is one profile with all that it includes, or a list of exactly those that are meant.
type profiles struct{ to *[]string }

func (b profiles) list() series[string] { return wordList(b.to, profileWords) }

func (b profiles) pointer() any { return b.to }

func (b profiles) print() (any, bool) {
	for i, w := range profileWords {
		if slices.Equal(*b.to, profileWords[:i+1]) {
			return w, true
		}
	}
	return b.list().print()
}

func (b profiles) decode(d *decoder, v value) {
	if _, many := v.node.(*ast.SequenceNode); many {
		b.list().decode(d, v)
		// The order says nothing: it is kept as the standard has it.
		slices.SortFunc(*b.to, func(x, y string) int { return slices.Index(profileWords, x) - slices.Index(profileWords, y) })
		return
	}
	var one string
	(word[string]{&one, profileWords}).decode(d, v)
	if one != "" {
		*b.to = slices.Clone(profileWords[:slices.Index(profileWords, one)+1])
	}
}

func (b profiles) schema(defs *schemaDefs) schema {
	return schema{"anyOf": []schema{{"type": "string", "enum": profileWords}, b.list().schema(defs)}}
}
