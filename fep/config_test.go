package fep

import (
	"reflect"
	"testing"

	"github.com/uetlab/uetlab/fep/cms"
	"github.com/uetlab/uetlab/fep/lb"
	"github.com/uetlab/uetlab/fep/pds"
)

// TestConfigPassesAllFields sets every field that Config has in common with packet delivery's and looks whether it gets there and
// back.
func TestConfigPassesAllFields(t *testing.T) {
	var c, back Config
	var n int
	cv := reflect.ValueOf(&c).Elem()
	pt := reflect.TypeFor[pds.Config]()
	for i := range cv.NumField() {
		name := cv.Type().Field(i).Name
		if _, ok := pt.FieldByName(name); !ok {
			continue
		}
		n++
		switch f := cv.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString(name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(n))
		case reflect.Uint8, reflect.Uint16, reflect.Uint32:
			f.SetUint(uint64(n))
		case reflect.Array:
			f.Index(0).SetUint(uint64(n))
		case reflect.Struct:
			f.Set(reflect.ValueOf(lb.Params{EVs: n}))
		case reflect.Pointer:
			f.Set(reflect.ValueOf(&cms.Config{Window: int64(n)}))
		case reflect.Interface:
			f.Set(reflect.ValueOf(fixed(7)))
		default:
			t.Fatalf("%s: no value of kind %v", name, f.Kind())
		}
	}
	p := c.delivery()
	back.adopt(&p)
	for i := range pt.NumField() {
		name := pt.Field(i).Name
		f := cv.FieldByName(name)
		if !f.IsValid() {
			if name != "FA" {
				t.Errorf("%s is not in fep.Config", name)
			}
			continue
		}
		if !reflect.DeepEqual(f.Interface(), reflect.ValueOf(p).Field(i).Interface()) {
			t.Errorf("%s: does not reach packet delivery", name)
		}
		if !reflect.DeepEqual(f.Interface(), reflect.ValueOf(back).FieldByName(name).Interface()) {
			t.Errorf("%s: does not come back", name)
		}
	}
}
