package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/uetlab/uetlab/fabric/topology"
)

// settingRows print what congestion management of an end point comes to, a row for each section.
func settingRows(list []topology.KeyValue) (rows [][2]string) {
	const own = "transport" // of the keys without section
	row := map[string]int{}
	for _, kv := range list {
		section, key, nested := strings.Cut(kv.Key, ".")
		if !nested {
			section, key = own, kv.Key
		}
		i, ok := row[section]
		if !ok {
			i = len(rows)
			row[section] = i
			rows = append(rows, [2]string{section, ""})
		}
		if rows[i][1] != "" {
			rows[i][1] += ", "
		}
		rows[i][1] += key + " " + kv.Value
	}
	return rows
}

// settingFacts print it of all end points of a fabric, once for those that have the same.
func settingFacts(plan *topology.Plan) ([][2]string, error) {
	var kinds [][]topology.KeyValue
	var of [][]string
next:
	for i := range plan.Nodes {
		if plan.Nodes[i].FEP == nil {
			continue
		}
		list, err := plan.FormatFEP(i)
		if err != nil {
			return nil, err
		}
		for k := range kinds {
			if reflect.DeepEqual(kinds[k], list) {
				of[k] = append(of[k], plan.Nodes[i].Name)
				continue next
			}
		}
		kinds, of = append(kinds, list), append(of, []string{plan.Nodes[i].Name})
	}
	var rows [][2]string
	for k, list := range kinds {
		names := of[k][0]
		if n := len(of[k]) - 1; n > 0 {
			names = fmt.Sprintf("%s and %d others", names, n)
		}
		rows = append(append(rows, [2]string{"end points", names}), settingRows(list)...)
	}
	return rows, nil
}
