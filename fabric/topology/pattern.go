package topology

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled at its first use: every node process has this package in it, and
// none of them reads a topology file.
type pattern struct {
	expr string
	once sync.Once
	re   *regexp.Regexp
}

func lazily(expr string) *pattern { return &pattern{expr: expr} }

func (p *pattern) get() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.expr) })
	return p.re
}

func (p *pattern) MatchString(s string) bool { return p.get().MatchString(s) }

func (p *pattern) FindStringSubmatch(s string) []string { return p.get().FindStringSubmatch(s) }

// String is the expression, as a JSON schema has it.
func (p *pattern) String() string { return p.expr }
