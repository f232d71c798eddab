package main

import (
	"cmp"
	"path"
	"regexp"
	"slices"
)

// linkForm is a test in the page: its name, its file, how it ended if it did not pass, and the same of its run on veth pairs.
var linkForm = regexp.MustCompile(`\[([\w/]+\.Test\w+)\]\(\.\./([\w/.]+)\)(?: \(([a-z ]+)\))?(, veth(?: \(([a-z ]+)\))?)?`)

// resultsIn reads how tests ended from a page that was written earlier.
func resultsIn(markdown []byte) map[string]result {
	ended := map[string]result{}
	for _, m := range linkForm.FindAllSubmatch(markdown, -1) {
		ended[string(m[1])] = cmp.Or(result(m[3]), resultPass)
		if len(m[4]) > 0 {
			ended[string(m[1])+vethRun] = cmp.Or(result(m[5]), resultPass)
		}
	}
	return ended
}

// gone lists the tests of a written page that the tree does not have where the page says.
func gone(markdown []byte, tests []test) (names []string) {
	for _, m := range linkForm.FindAllSubmatch(markdown, -1) {
		if !slices.ContainsFunc(tests, func(t test) bool { return t.String() == string(m[1]) && t.File == path.Clean(string(m[2])) }) {
			names = append(names, string(m[1]))
		}
	}
	return names
}
