package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// idealName stands in expressions for the ideal time of the first variant that has run, ns.
const idealName = "ideal"

// Expectation is a condition on the statistics of variants, compiled.
type Expectation struct {
	Text  string
	names []string // variants that it speaks of
	keys  []string // statistics that it speaks of
	whole *vm.Program
	parts []comparison
}

// comparison is one comparison of an expectation; the programs give its sides, nil where a side is a constant.
type comparison struct {
	left, right *vm.Program
	text        string
}

// Check is what became of an expectation.
type Check struct {
	Text    string `json:"expect"`
	OK      bool   `json:"ok"`
	Figures string `json:"figures"` // what its comparisons compared, or why there was nothing to compare
}

// Expect compiles an expectation over variants of these names. Its error says what is wrong in one line.
func Expect(text string, variants []Variant) (*Expectation, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, plain(err)
	}
	n := &namer{variants: variants}
	ast.Walk(&tree.Node, n)
	if n.err != nil {
		return nil, n.err
	}
	env := map[string]any{idealName: 1.0}
	for i := range variants {
		env[variants[i].Name] = map[string]float64{}
	}
	x := &Expectation{Text: text, names: n.used, keys: n.keys}
	if x.whole, err = expr.Compile(text, expr.Env(env), expr.AsBool()); err != nil {
		return nil, plain(err)
	}
	if tree, err = parser.Parse(text); err != nil {
		return nil, plain(err)
	}
	return x, x.compare(tree.Node, env)
}

// compare gathers the comparisons of a condition.
func (x *Expectation) compare(n ast.Node, env map[string]any) (err error) {
	b, ok := n.(*ast.BinaryNode)
	if !ok {
		if u, ok := n.(*ast.UnaryNode); ok {
			return x.compare(u.Node, env)
		}
		return nil
	}
	switch b.Operator {
	case "and", "or", "&&", "||":
		return errors.Join(x.compare(b.Left, env), x.compare(b.Right, env))
	case "<", "<=", ">", ">=", "==", "!=":
	default:
		return nil
	}
	c := comparison{text: b.String()}
	if c.left, err = side(b.Left, env); err != nil {
		return err
	}
	if c.right, err = side(b.Right, env); err != nil {
		return err
	}
	x.parts = append(x.parts, c)
	return nil
}

// side compiles one side of a comparison.
func side(n ast.Node, env map[string]any) (*vm.Program, error) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.BoolNode:
		return nil, nil
	}
	p, err := expr.Compile(n.String(), expr.Env(env))
	if err != nil {
		return nil, plain(err)
	}
	return p, nil
}

// namer looks at the names in an expression, which expr would take for absent keys.
type namer struct {
	variants []Variant
	used     []string
	keys     []string
	err      error
}

// Visit implements ast.Visitor.
func (n *namer) Visit(node *ast.Node) {
	switch x := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		n.fail(errors.New("let: write the expression out"))
	case *ast.IdentifierNode:
		n.identifier(x.Value)
	case *ast.MemberNode:
		id, ok := x.Node.(*ast.IdentifierNode)
		if !ok || !n.isVariant(id.Value) {
			return
		}
		key, ok := x.Property.(*ast.StringNode)
		switch {
		case !ok:
			n.fail(fmt.Errorf("%s[…]: write it like %s.max", id.Value, id.Value))
		case !slices.Contains(Keys(), key.Value):
			n.fail(fmt.Errorf("%s.%s: not a statistic; %s", id.Value, key.Value, meant(key.Value, Keys())))
		default:
			n.keys = append(n.keys, key.Value)
		}
	}
}

func (n *namer) fail(err error) {
	if n.err == nil {
		n.err = err
	}
}

func (n *namer) isVariant(name string) bool {
	return slices.ContainsFunc(n.variants, func(v Variant) bool { return v.Name == name })
}

func (n *namer) identifier(name string) {
	switch {
	case n.isVariant(name):
		if !slices.Contains(n.used, name) {
			n.used = append(n.used, name)
		}
	case name != idealName:
		valid := []string{idealName}
		for i := range n.variants {
			valid = append(valid, n.variants[i].Name)
		}
		n.fail(fmt.Errorf("%s: not a variant; %s", name, meant(name, valid)))
	}
}

// taken says why a variant cannot have a name; empty: it can.
func taken(name string) string {
	tree, err := parser.Parse(name + ".max")
	if err == nil && name != idealName {
		if m, ok := tree.Node.(*ast.MemberNode); ok {
			if id, ok := m.Node.(*ast.IdentifierNode); ok && id.Value == name {
				return ""
			}
		}
	}
	return "means something else in expressions"
}

// plain words an error of the expression language in one line.
func plain(err error) error {
	var e *file.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s, at character %d", e.Message, e.Column+1)
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(first)
}

// check says whether the expectation holds.
func (x *Expectation) check(outcomes []Outcome) Check {
	c := Check{Text: x.Text}
	env := map[string]any{idealName: 0.0}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Error != "" && slices.Contains(x.names, o.Name) {
			c.Figures = o.Name + " failed"
			return c
		}
		env[o.Name] = o.Stats.numbers()
		if env[idealName] == 0.0 {
			env[idealName] = float64(o.Stats.Ideal)
		}
	}
	got, err := expr.Run(x.whole, env)
	if err != nil {
		c.Figures = plain(err).Error()
		return c
	}
	c.OK, _ = got.(bool)
	var figures []string
	for _, p := range x.parts {
		figures = append(figures, p.figures(env))
	}
	c.Figures = strings.Join(figures, "; ")
	return c
}

// figures writes what the two sides are.
func (c *comparison) figures(env map[string]any) string {
	var out []string
	for _, p := range []*vm.Program{c.left, c.right} {
		if p == nil {
			continue
		}
		v, err := expr.Run(p, env)
		if err != nil {
			return plain(err).Error()
		}
		out = append(out, figure(v))
	}
	return strings.Join(out, " and ")
}

// figure writes a number with at least three digits.
func figure(v any) string {
	f, ok := v.(float64)
	switch {
	case !ok:
		return fmt.Sprint(v)
	case math.IsInf(f, 1):
		return "never"
	case math.Abs(f) >= 1000 || f == math.Trunc(f):
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}
