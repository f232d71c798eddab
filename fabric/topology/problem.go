package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a topology file: what (value): why, and what to write instead.
type Problem struct {
	File string // empty for a topology that did not come from a file
	Line int    // counted from 1; 0 where there is no line to point to
	Col  int    // counted from 1, in characters
	Msg  string // what was wrong: "rate (400G): not a rate"
	Hint string // how to mend it; may be empty

	meaning bool // the form is right, the meaning is not: nothing a JSON schema could see
}

// Error prints the problem as file:line:col: message; hint.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		b.WriteByte(':')
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Col)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		b.WriteString("; ")
		b.WriteString(p.Hint)
	}
	return b.String()
}

// Problems are all that is wrong with one file, in file order. It is an error only when not empty.
type Problems []Problem

// Error prints one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// err gives the problems as an error in file order, nil when there are none.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	return ps
}

// about words the subject of a problem: "rate (400G)".
func about(what, value string) string {
	if value == "" {
		return what
	}
	const most = 60
	if r := []rune(value); len(r) > most {
		value = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%s (%s)", what, value)
}

// didYouMean proposes the nearest of the valid names, or lists a few of them when none is near.
func didYouMean(got string, valid []string) string {
	if near := nearest(got, valid); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(valid) == 0 {
		return ""
	}
	const most = 12
	if len(valid) > most {
		return fmt.Sprintf("valid are %s, … (%d in all)", strings.Join(valid[:most], ", "), len(valid))
	}
	return "valid are " + strings.Join(valid, ", ")
}

// nearest finds the valid name with the smallest edit distance, among equals the one that starts alike, else the
// first; empty when all are further away than a slip of the fingers explains.
func nearest(got string, valid []string) string {
	best, bestCost := "", 2*(1+max(1, (len(got)+2)/3))
	low := strings.ToLower(got)
	for _, v := range valid {
		lowV := strings.ToLower(v)
		cost := 2 * distance(low, lowV)
		if low != "" && lowV != "" && low[0] != lowV[0] {
			cost++
		}
		if cost < bestCost {
			best, bestCost = v, cost
		}
	}
	return best
}

// distance counts the insertions, deletions, changes and swaps of neighbours that make b of a.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
